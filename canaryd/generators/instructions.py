"""Checkable instructions: words on one line that must have several properties at once."""

from __future__ import annotations

from canaryd.generators.draw import Draw
from canaryd.generators.family import Family, Question
from canaryd.records import JsonValue

_LADDER = (
    "4 or 5 words with 2 properties",
    "6 or 7 words with 3 properties",
    "8 or 9 words with 4 properties",
    "10 or 11 words with 5 properties",
)
_WORDS = (
    *("acorn", "actor", "angle", "apple", "arrow", "basil", "beach", "berry", "birch", "bridge", "butter", "cabin"),
    *(
        "camel",
        "candle",
        "carpet",
        "castle",
        "cherry",
        "circle",
        "cloud",
        "copper",
        "corn",
        "cotton",
        "dance",
        "desert",
    ),
    *("dinner", "doctor", "dragon", "eagle", "earth", "echo", "elbow", "engine", "fabric", "falcon", "farmer", "fern"),
    *("finger", "flame", "forest", "garden", "ginger", "glove", "grape", "guitar", "hammer", "harbor", "hill", "honey"),
    *("ice", "igloo", "island", "ivory", "jacket", "jewel", "juice", "jungle", "kettle", "kitten", "knot", "ladder"),
    *("lake", "lemon", "lion", "lizard", "magnet", "maple", "meadow", "mirror", "moon", "needle", "nest", "north"),
    *("ocean", "olive", "onion", "orange", "otter", "paper", "pebble", "pepper", "pirate", "planet", "quartz", "queen"),
    *("rabbit", "radio", "raven", "river", "rocket", "rope", "salmon", "shadow", "silver", "spoon", "stone", "sugar"),
    *("table", "temple", "tiger", "tower", "tulip", "uncle", "velvet", "violin", "wagon", "walnut", "water", "willow"),
    *("window", "winter", "yard", "yarn", "zebra", "zero"),
)


def _draw(draw: Draw, level: int) -> Question:
    """Return instructions together with an example that follows them, from which they were read off."""
    words = draw.sample(_WORDS, 2 + 2 * level + draw.below(2))
    arranged = draw.choice(("alphabetical", "initials"))
    if arranged == "alphabetical":
        words.sort()
    big = draw.below(2) == 1
    example = " ".join(words).upper() if big else " ".join(words)
    rules = [_arrangement(words, arranged), *draw.shuffled(_properties(draw, words, big=big))[:level]]
    told = "\n".join(f"- {told}" for told, _ in rules)
    checks: list[JsonValue] = [check for _, check in rules]
    prompt = f"Write English words on one line, separated by single spaces, so that all of this holds:\n{told}"
    return Question(prompt, example, "constraints", {"checks": checks, "fallbacks": ["line"]})


def _arrangement(words: list[str], arranged: str) -> tuple[str, dict[str, JsonValue]]:
    """Return the rule about the number of words, or about their first letters."""
    if arranged == "alphabetical":
        count = len(words)
        return f"there are exactly {count} words", {"kind": "words", "min": count, "max": count}
    initials = "".join(word[0] for word in words)
    return (
        f'the first letters of the words are, in this order, "{initials}"',
        {"kind": "word_initials", "text": initials},
    )


def _properties(draw: Draw, words: list[str], *, big: bool) -> list[tuple[str, dict[str, JsonValue]]]:
    """Return properties that the words have, as sentence and check."""
    joined = " ".join(words)
    letters = draw.sample(sorted(set(joined) - {" "}), 2)
    absent = draw.choice([letter for letter in "abdegilmoprst" if letter not in joined] or ["x"])
    lengths = [len(word) for word in words]
    rules: list[tuple[str, dict[str, JsonValue]]] = [
        (f'the letter "{letter}" occurs exactly {_times(joined.count(letter))}', _occurs(letter, joined.count(letter)))
        for letter in letters
    ]
    rules.append(
        (
            f"the line has exactly {len(joined)} characters",
            {"kind": "characters", "min": len(joined), "max": len(joined)},
        )
    )
    rules.append((f'it ends with the word "{words[-1]}"', {"kind": "ends_with", "text": words[-1]}))
    rules.append(
        ("all letters are capitals", {"kind": "uppercase"})
        if big
        else ("no letter is a capital", {"kind": "lowercase"})
    )
    if absent not in joined:
        rules.append((f'the letter "{absent}" does not occur', _occurs(absent, 0)))
    rules.append(
        (
            f"every word has from {min(lengths)} to {max(lengths)} letters",
            {"kind": "word_length", "min": min(lengths), "max": max(lengths)},
        )
    )
    if words == sorted(words):
        rules.append(("the words are in alphabetical order", {"kind": "alphabetical"}))
    return rules


def _times(count: int) -> str:
    """Return a count in words."""
    return "once" if count == 1 else f"{count} times"


def _occurs(letter: str, count: int) -> dict[str, JsonValue]:
    """Return the check that a letter occurs so many times."""
    return {"kind": "occurs", "text": letter, "min": count, "max": count}


INSTRUCTIONS = Family("instructions", "checkable instructions", _LADDER, _draw)
