"""A program: moto's S3 application on another web server, in a separate environment. Arguments: host, port.

moto's own web server answers `Expect: 100-continue` twice, which the AWS SDK treats as a failure.
"""

import sys

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app  # type: ignore[import-not-found]
from waitress import serve  # type: ignore[import-untyped]

_THREADS = 8

if __name__ == "__main__":
    application = DomainDispatcherApplication(create_backend_app)
    serve(application, host=sys.argv[1], port=int(sys.argv[2]), threads=_THREADS)
