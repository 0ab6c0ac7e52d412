"""Constants, types and rules that all parts of Headrace share besides the protocol's messages. Standard library only.

Every part imports this package before gRPC, so its import decides what gRPC does at a fork.
"""

from headrace.contract.forks import leave_forks_alone

leave_forks_alone()
