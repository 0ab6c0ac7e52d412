"""Catalogs of Iceberg, by the configuration of pyiceberg."""

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from headrace.engine.s3_environment import of_pyiceberg

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

TIMEOUT_S = 60.0
"""How long a call waits for a part of the answer of a REST catalog. pyiceberg waits without end."""


def open_catalog(name: str, options: Mapping[str, str]) -> "Catalog":
    """Opens a catalog of pyiceberg's configuration.

    Args:
        name: Its name.
        options: Its properties, which precede the configuration and the environment.

    Raises:
        Exception: Whatever pyiceberg, or a client of the catalog, raises.
    """
    from pyiceberg.catalog import CatalogType, infer_catalog_type, load_catalog
    from pyiceberg.utils.config import Config

    properties = {**of_pyiceberg(), **options}
    whole: dict[str, Any] = {**(Config().get_catalog_config(name) or {}), **properties}
    if "py-catalog-impl" in properties:
        return load_catalog(name, **properties)
    given = whole.get("type")
    kind = infer_catalog_type(name, whole) if given is None else CatalogType(str(given).lower())
    if kind != CatalogType.REST:
        return load_catalog(name, **properties)
    return _rest_catalog()(name, **whole)


def _rest_catalog() -> type["Catalog"]:
    from pyiceberg.catalog.rest import RestCatalog
    from requests import Session

    class TimedRestCatalog(RestCatalog):
        """Each of its requests ends, so that an error names the table. Its methods are called by pyiceberg alone."""

        def _create_session(self) -> Session:
            session: Session = super()._create_session()
            _limit(session)
            return session

        def _create_legacy_oauth2_auth_manager(self, session: Session) -> Any:
            _limit(session)  # The manager asks for a token at once.
            return super()._create_legacy_oauth2_auth_manager(session)

    return TimedRestCatalog


def _limit(session: Any) -> None:
    if not isinstance(session.request, partial):
        session.request = partial(session.request, timeout=TIMEOUT_S)
