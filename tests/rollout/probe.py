"""The probe engine's tokens, computed again in Python: what a runtime over it must generate."""


def probe_tokens(
    prompt: list[int], n: int, *, seed: int, vocab_size: int, read_all: bool, version: int = 0
) -> list[int]:
    """The probe's tokens for a prompt under one policy version, without a runtime."""
    mask = (1 << 64) - 1

    def mix(h: int, x: int) -> int:
        h = ((h ^ x) * 0x9E3779B97F4A7C15) & mask
        return h ^ h >> 31

    tokens, cells = list(prompt), list[int]()
    while len(tokens) < len(prompt) + n:
        while len(cells) < len(tokens):
            cells.append(mix(cells[-1] if cells else 0, tokens[len(cells)] | version << 32))
        h = cells[-1]
        for cell in cells if read_all else ():
            h = mix(h, cell)
        h = mix(mix(h, seed), len(tokens))
        tokens.append(h % vocab_size)
    return tokens[len(prompt) :]
