"""How to reach a gateway: the settings that options, keys of configuration files, variables and Spark's options are made of.

The key of the gateway itself is `address`, in a table `gateway`.
"""

from headrace.contract.settings import Setting

GATEWAY = Setting("gateway", "The gateway to call, HOST:PORT.")
TOKEN = Setting("token", "Token to authenticate with.")
TOKEN_FILE = Setting("token_file", "A file that contains the token, such as /dev/fd/3; read again when it has changed.")
TLS = Setting("tls", "Use TLS; implied by the files below.")
TLS_CA = Setting("tls_ca", "PEM: the authority to trust, instead of the authorities of this machine.")
TLS_CERT = Setting("tls_cert", "PEM: the client certificate.")
TLS_KEY = Setting("tls_key", "PEM: its key.")
SETTINGS = (GATEWAY, TOKEN, TOKEN_FILE, TLS, TLS_CA, TLS_CERT, TLS_KEY)
