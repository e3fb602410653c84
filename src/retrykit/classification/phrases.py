"""Which of many phrases stand in a text, found in one pass over the text instead of one search for each.

Of each phrase four characters are remembered. Those that a text does not hold rule out nearly all phrases; the rest are searched
for. The answer is a number with one bit for each phrase, so that "any of these" is one `&`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias

__all__ = ["PhraseBook"]

_Gram: TypeAlias = tuple[str, str, str, str]


class PhraseBook:
    """Phrases in the form that `words` gives.

    Args:
        phrases: each counts once.

    Example:
        >>> book = PhraseBook(["user unknown", " full ", "quota"])
        >>> present = book.found(" mailbox over quota ")
        >>> bool(present & book.mask(["quota", " full "])), bool(present & book.mask(["user unknown"]))
        (True, False)
    """

    __slots__ = ("_bits", "_by_gram", "_short")

    def __init__(self, phrases: Iterable[str]) -> None:
        self._bits: Final = {phrase: 1 << place for place, phrase in enumerate(dict.fromkeys(phrases))}
        self._short: Final = [each for each in self._bits.items() if len(each[0]) < 4]
        counts = Counter(gram for phrase in self._bits for gram in set(_grams(phrase)))
        self._by_gram: Final = dict[_Gram, list[tuple[str, int]]]()
        for phrase, bit in self._bits.items():
            if len(phrase) >= 4:
                rarest = min(_grams(phrase), key=counts.__getitem__)
                self._by_gram.setdefault(rarest, []).append((phrase, bit))

    def mask(self, phrases: Iterable[str]) -> int:
        """Return the bits of some of the phrases."""
        mask = 0
        for phrase in phrases:
            mask |= self._bits[phrase]
        return mask

    def found(self, text: str) -> int:
        """Return the bits of the phrases that stand in a text."""
        present = 0
        for candidates in filter(None, map(self._by_gram.get, _grams(text))):
            for phrase, bit in candidates:
                if phrase in text:
                    present |= bit
        for phrase, bit in self._short:
            if phrase in text:
                present |= bit
        return present


def _grams(text: str) -> Iterator[_Gram]:
    return zip(text, text[1:], text[2:], text[3:], strict=False)
