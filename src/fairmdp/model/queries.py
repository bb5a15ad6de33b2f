"""Why words of a model checker are no quota, and how to say what they may have meant."""

from __future__ import annotations

import re

_THEIRS = re.compile(
    r'(?:"[^"]*"\s*:|!|\()*\s*(?:LRA|S|R|P|T)\s*(?:\{[^}]*\}\s*)?(?:max|min)?\s*[<>=\[]', re.ASCII
)
_PUT_TOGETHER = re.compile(r"\s*(?:multi|mlessr|quantile|lex)\s*\(")
_OPERATOR = re.compile(r"\b(?:LRA|[SRPT])\s*(?:\{[^}]*\}\s*)?(?:max|min)?\s*[<>=]")
_ONE = re.compile(
    r"(?P<what>(?:LRA|S|R)\s*(?:\{[^}]*\})?)\s*(?P<best>max|min)?\s*(?P<sign>[<>]=?|=)\s*(?P<value>[^<>=\s\[?]+)"
    r"\s*(?P<of>\[.*\])",
    re.ASCII,
)
_UNTIL = re.compile(r"\[\s*(?:C|F|I)\b")


def why_unread(text: str) -> str | None:
    """What is wrong with a query that is no bound on a long-run mean; None if it is not a model checker's."""
    if _PUT_TOGETHER.match(text):
        return (
            "puts several objectives together, and a quota is one bound\n"
            "  give what is to be largest as the reward (--reward NAME) and each bound as a quota of its own;"
            " fairmdp frontier shows what one costs the other"
        )
    if text.startswith("filter"):
        return "filters states\n  a quota holds from where the model starts: state the bound alone"
    if text.startswith("<<"):
        return "is about several players, and here one decides\n  leave out <<...>>"
    if not _THEIRS.match(text):
        return None
    if re.search(r"=\s*\?", text):
        return (
            "asks for a value, and a quota bounds one\n"
            "  what is to be largest is the reward (--reward NAME); a bound >=0 has a share or mean shown"
        )
    if len(_OPERATOR.findall(text)) > 1:
        return "is more than one bound\n  state each as a quota of its own"
    if re.match(r"\W*[PT]\b", text):
        return (
            "bounds a probability or a time until something happens\n"
            '  quotas bound long-run means: LRA>=SHARE ["NAME"], S>=SHARE ["NAME"] or R{"NAME"}>=MEAN [LRA]'
        )
    if _UNTIL.search(text):
        return 'bounds what is earned until some time\n  a long-run mean is R{"NAME"}>=MEAN [LRA]'
    one = _ONE.search(text)
    return None if one is None else _corrected(text, one)


def _corrected(text: str, one: re.Match[str]) -> str:
    """What is to be changed in a bound that can nearly be read."""
    what = re.sub(r"\{\s*([^\"}]*?)\s*\}", r'{"\1"}', one["what"])
    sign, value, of = one["sign"], one["value"], one["of"]
    if sign == "=":
        return (
            "is met exactly by what is met from both sides\n"
            f"  state two quotas: {what}>={value} {of} and {what}<={value} {of}"
        )
    instead = f"{what}{sign[0]}={value} {of}"
    if text.strip().startswith("!"):
        other = "<" if sign[0] == ">" else ">"
        return f"negates a bound\n  state the other one: {what}{other}={value} {of}"
    if len(sign) == 1:
        return f"is a strict bound, which can be approached for ever\n  state {instead}"
    if one["best"]:
        return f"bounds what some best policy has, and a quota what the policy found has\n  state {instead}"
    if what != one["what"]:
        return f"names a reward without quotes\n  state {instead}"
    return f"has something around the bound\n  state {instead} by itself"
