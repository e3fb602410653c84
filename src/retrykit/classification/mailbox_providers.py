"""Codes of mailbox providers' own that stand in the text of their SMTP replies, and what they mean.

Each names itself ("AUP#In-1310", "OFR_506", "[TSS04]", "MI:SPB"), so it is believed whoever is said to have answered, and before
the reply's words and codes, which often say something else.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from ..failure import ErrorClass as C  # it stands in every row

__all__ = ["MAILBOX_CODES", "mailbox_codes"]

MAILBOX_CODES: Final[Mapping[str, Mapping[C, str]]] = {
    "spectrum": {  # AUP#In-nnnn, AUP#Out-nnnn
        C.REPUTATION_BLOCKED: "1000 1160-1190 1200-1250",
        C.PROVIDER_MISCONFIGURED: "1010-1080 1100-1150 1260 1500-1520",
        C.PROVIDER_UNAVAILABLE: "1090",
        C.PROVIDER_THROTTLED: "1300-1490 1540-1550 1580",
        C.CONTENT_REJECTED: "1530",
        C.POLICY_VIOLATION: "1560",
    },
    "orange": {  # OFR_nnn, OFRnnn_nnn; LPN at La Poste; OUK
        C.REPUTATION_BLOCKED: "101-102 108 403 405 415 421 510",
        C.PROVIDER_THROTTLED: "103-105 109 999",
        C.PROVIDER_MISCONFIGURED: "401-402 517",
        C.INVALID_RECIPIENT: "416 420 426",
        C.MAILBOX_FULL: "417",
        C.PROVIDER_UNAVAILABLE: "505",
        C.CONTENT_REJECTED: "506 514",
        C.POLICY_VIOLATION: "630",
    },
    "godaddy": {  # IBnnn
        C.REPUTATION_BLOCKED: "ib103-106 ib108 ib110-113",
        C.PROVIDER_THROTTLED: "ib007 ib504 ib510 ib607",
        C.PROVIDER_MISCONFIGURED: "ib401 ib508",
        C.INVALID_PAYLOAD: "ib501",
        C.CONTENT_REJECTED: "ib212 ib705",
    },
    "cox": {
        C.REPUTATION_BLOCKED: "cxbl cdrbl cxsmtp ipbl",  # IPBL and URLBL are followed by the lists, a bit for each
        C.CONTENT_REJECTED: "urlbl",
        C.PROVIDER_MISCONFIGURED: "cxdns cxsndr cxmj",
        C.PROVIDER_THROTTLED: "cxcnct cxmxrt cxthrt",
    },
    "yahoo": {  # in square brackets
        C.PROVIDER_THROTTLED: "ts01-04 tss01-08 tss11-12",
        C.POLICY_VIOLATION: "ph01-05",
        C.REPUTATION_BLOCKED: "bl20-29",
    },
    "apple": {C.CONTENT_REJECTED: "cs01-02 hm07-08"},
    "netease": {  # 163.com, 126.com
        C.CONTENT_REJECTED: "mi:spb dt:spm",
        C.PROVIDER_THROTTLED: "mi:cel mi:dmc mi:sfq mi:stc mi:smt rp:cel rp:rcl rp:dlm hl:ifc hl:isp",
        C.REPUTATION_BLOCKED: "hl:ipb hl:rep hl:icc mi:ccb rp:trc",
    },
    "i.ua": {  # the number at the end of the link
        C.PROVIDER_MISCONFIGURED: "1 6 7 8",
        C.INVALID_RECIPIENT: "2 3 10",
        C.MAILBOX_FULL: "4",
        C.PROVIDER_THROTTLED: "5",
        C.REPUTATION_BLOCKED: "9",
    },
}
"""What the codes mean, by provider and class; "103-106" is a range."""

_HINTS: Final = (
    "aup#", "ofr", "lpn", "ouk", " ib", "cx", "cdrbl", "bl0", "bl1", "[ts", "[ph", "[bl", "[cs", "[hm", "mi:", "dt:", "rp:", "hl:",
    "i.ua/",
)  # fmt: skip
_CODES: Final = re.compile(
    r"aup#(?:in|out)-(?P<spectrum>\d{4})\b"
    r"|\b(?:ofr|lpn|ouk)\d{0,3}_(?P<orange>\d{3})\b"
    r"|\b(?P<godaddy>ib\d{3})\b"
    r"|\b(?P<cox>cx[a-z]{2,4}|cdrbl)\b"
    r"|\b(?:(?P<ipbl>ipbl)|(?P<urlbl>urlbl))[01]{3,5}\b"
    r"|\[(?:(?P<yahoo>tss?\d\d|ph\d\d|bl\d\d)|(?P<apple>cs\d\d|hm\d\d))\]"
    r"|\b(?P<netease>(?:mi|dt|rp|hl):[a-z]{3})\b"
    r"|\bi\.ua/err/(?P<iua>\d{1,2})\b",
    re.ASCII,
)
_NAMES: Final = {"ipbl": "cox", "urlbl": "cox", "iua": "i.ua"}
"""Whose a group of the pattern is, where it is not called so."""
_LENGTH: Final = 2_000


def mailbox_codes(text: str) -> tuple[str, ...]:
    """Return the codes that stand in the first 2,000 characters of a reply's text, as "provider.code".

    Example:
        >>> mailbox_codes("421 too many connections OFR004_104 [104]")
        ('orange.104',)
    """
    text = text[:_LENGTH].lower()
    if not any(map(text.__contains__, _HINTS)):  # the search costs as much as all else
        return ()
    return tuple(
        f"{_NAMES.get(name, name)}.{match[name]}" for match in _CODES.finditer(text) if (name := match.lastgroup)
    )
