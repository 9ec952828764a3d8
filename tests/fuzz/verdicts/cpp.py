"""Cases of `code.cpp`."""

import random
from typing import Final

from tests.fuzz.verdicts.case import Case, Expected

_SUM: Final = "long long n, t = {salt}; while (std::cin >> n) t += n; std::cout << t - {salt} + {off} << std::endl;"
_WRONG: Final = (
    "#error Killed signal terminated program\nint main() {}",
    "#error cc1plus: out of memory allocating 1 bytes\nint main() {}",
    "#error Cannot allocate memory\nint main() {}",
    "#error internal compiler error: Segmentation fault\nint main() {}",
    "#warning virtual memory exhausted\nint main() { return 1; }",
    '#pragma GCC error "signal 9"\nint main() {}',
    '#include "/dev/zero"\nint main() {}',
    '#include "/proc/self/environ"\nint main() {}',
    "#include __FILE__\nint main() {}",
    "template<int N> struct S {{ enum {{ v = S<N + 1>::v }}; }}; int main() {{ return S<0>::v; }}",
    "int main() {{ *(volatile int*)0 = {salt}; }}",
    "#include <cstdlib>\nint main() {{ abort(); }}",
    "#include <csignal>\nint main() {{ raise({salt} % 31 + 1); }}",
    "int main() {{ return {salt} % 250 + 1; }}",
    "#include <unistd.h>\nint main() {{ for (int i = 0; i < 64; i++) close(i); }}",
    "int x[1 << 30] = {{1}}; int main() {{}}",
    "int f(int n) {{ return f(n + 1) + 1; }} int main() {{ return f({salt}); }}",
    'asm(".incbin \\"/etc/passwd\\""); int main() {{}}',
    'asm(".fill 2000000000, 1, 0"); int main() {{}}',
    "\0\xff int main() {{",
)


def cpp_case(rng: random.Random) -> Case:
    """A program that adds numbers, rightly, wrongly, or not at all."""
    numbers = [rng.randint(-999, 999) for _ in range(5)]
    salt = rng.randint(1, 10**6)
    kind = rng.choice(("right", "wrong", "spoiler", "spoiler"))
    if kind == "spoiler":
        source = rng.choice(_WRONG)
        source = source.replace("{salt}", str(salt)).replace("{{", "{").replace("}}", "}")
    else:
        body = _SUM.replace("{salt}", str(salt)).replace("{off}", "0" if kind == "right" else "1")
        source = f"#include <iostream>\nint main() {{ {body} }}\n"
    return Case(
        pipeline="code.cpp",
        kind=f"cpp: {kind}",
        response=f"```cpp\n{source}\n```",
        reference={
            "tests": [{"stdin": " ".join(map(str, numbers)) + "\n", "stdout": f"{sum(numbers)}\n"}]
        },
        expected=Expected.RIGHT if kind == "right" else Expected.WRONG,
        settings={"cpu_s": 1.0, "compile_cpu_s": 10.0},
    )
