"""The codec ``jenkins_lookup3``: HDF5's checksum of metadata (numcodecs id ``jenkins_lookup3``)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from tessarr.codec.base import register_codec
from tessarr.codec.checksum import Checksum, Location
from tessarr.codec.parameters import WrongParameter, check_integer

__all__ = ["JenkinsLookup3"]


@register_codec
@dataclass(frozen=True, slots=True)
class JenkinsLookup3(Checksum):
    """Bob Jenkins' lookup3 checksum: damage is detected when a chunk is read.

    Parameters
    ----------
    initval : int
        The initial value of the sum, 0 to 2**32 - 1.
    prefix : None
        numcodecs' initial bytes of the sum; metadata cannot state them.

    Examples
    --------
    >>> JenkinsLookup3().encode(b"Four score and seven years ago")[-4:].hex()
    '51057717'
    """

    name = "numcodecs.jenkins_lookup3"
    codec_id = "jenkins_lookup3"
    location: ClassVar[Location] = "end"  # type: ignore[misc]
    initval: int = 0
    prefix: None = None

    def __post_init__(self) -> None:
        check_integer("initval", self.initval, 0, 2**32 - 1)
        if self.prefix is not None:
            raise WrongParameter("prefix", self.prefix, "null", right_type=True)

    def get_config(self) -> dict[str, Any]:
        return {"id": self.codec_id, "initval": self.initval, "prefix": None}

    def engine(self) -> dict[str, object]:
        config = super(JenkinsLookup3, self).engine()
        return {**config, "initval": self.initval}
