"""`AzureStore`: a store in a container of Azure Blob Storage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Self, Unpack

from tessarr.format.registry import set_public_module
from tessarr.store.object.azure_options import AZURE_OPTIONS, resolve_azure
from tessarr.store.object.connection import ConnectionSettings
from tessarr.store.object.object_store import ObjectStore

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tessarr.store.object.options import OptionTable
    from tessarr.store.object.urls import StoreKind

__all__ = ["AzureSettings", "AzureStore"]


class AzureSettings(ConnectionSettings, total=False):
    """Keywords of `AzureStore`, which describes them."""

    account_name: str | None
    account_key: str | None
    sas_token: str | None
    connection_string: str | None
    endpoint: str | None
    client_id: str | None
    client_secret: str | None
    tenant_id: str | None
    bearer_token: str | None
    anonymous: bool | None
    credentials: Callable[[], Mapping[str, Any]] | None


class AzureStore(ObjectStore, keywords=AzureSettings):
    """A store in a container of Azure Blob Storage.

    Parameters
    ----------
    container : str
        The container.
    prefix : str, default ""
        The prefix of all keys.
    account_name : str, optional
        The storage account; required unless another argument or the environment names it.
    account_key : str, optional
        A key of the account.
    sas_token : str, optional
        A shared access signature.
    connection_string : str, optional
        The account, a key or signature, and an endpoint in one text, as the portal shows it.
    endpoint : str, optional
        The URL of the account on another server, such as
        ``http://127.0.0.1:10000/devstoreaccount1``.
    client_id, client_secret, tenant_id : str, optional
        An application of Microsoft Entra ID.
    bearer_token : str, optional
        An access token, which the store does not renew.
    anonymous : bool, optional
        Whether requests are not signed, as for public containers.
    credentials : callable, optional
        A function without parameters that returns a mapping with ``token``, and optionally
        ``expires_at`` (a `datetime` with a zone). The store calls it in any thread, and again
        before the token expires.
    read_only : bool, default False
        Refuse every change (`ReadOnlyError`).
    **settings
        The settings of `ConnectionSettings`, and any other name of ``storage_options``: arguments
        of adlfs, such as ``credential``, and options of the ``object_store`` crate.

    Raises
    ------
    ArgumentError
        If an option is unknown, invalid or not supported, or the account is missing.

    Notes
    -----
    Arguments have precedence over the environment (``AZURE_STORAGE_ACCOUNT``,
    ``AZURE_STORAGE_CONNECTION_STRING`` and the like). Without credentials, the store uses the
    managed identity of the machine, and else sends requests anonymously. Pickles contain the
    arguments, with their secrets; the representation does not show these.

    Examples
    --------
    >>> AzureStore("box", "a/b", account_name="account", sas_token="sv=1&sig=2")
    AzureStore('box', prefix='a/b', account_name='account', sas_token=…)
    """

    _kind: ClassVar[StoreKind] = "azure"
    _table: ClassVar[OptionTable] = AZURE_OPTIONS
    _location: ClassVar[tuple[str, ...]] = ("container", "prefix")
    _resolve = staticmethod(resolve_azure)

    def __new__(cls, container: str, prefix: str = "", **settings: Unpack[AzureSettings]) -> Self:
        return cls._create({"container": container, "prefix": prefix}, settings)


set_public_module("tessarr.stores", AzureStore)
