"""Programs in seven languages, right and wrong in the same ways."""

from typing import Final

ADDERS: Final = {
    "c": (
        '#include <stdio.h>\nint main() { int a, b; scanf("%d %d", &a, &b); printf("%d", a + b); }'
    ),
    "java": (
        "import java.util.*;\n// public class Other {\npublic class Solve {\n"
        "  static class Pair { }\n"
        "  public static void main(String[] args) {\n    Scanner in = new Scanner(System.in);\n"
        "    System.out.println(in.nextInt() + in.nextInt());\n  }\n}"
    ),
    "javascript": (
        'const [a, b] = require("fs").readFileSync(0, "utf8").split(" ").map(Number);\n'
        "console.log(a + b);"
    ),
    "typescript": (
        'import * as fs from "fs";\n'
        'const [a, b]: number[] = fs.readFileSync(0, "utf8").split(" ").map(Number);\n'
        "console.log(a + b);"
    ),
    "go": 'package main\nimport "fmt"\n'
    "func main() { var a, b int; fmt.Scan(&a, &b); fmt.Println(a + b) }",
    "rust": (
        "use std::io::Read;\nfn main() {\n    let mut text = String::new();\n"
        "    std::io::stdin().read_to_string(&mut text).unwrap();\n"
        "    let sum: i64 = text.split_whitespace().map(|x| x.parse::<i64>().unwrap()).sum();\n"
        '    println!("{}", sum);\n}'
    ),
    "bash": "read a b\necho $((a + b))",
}

LOOPS: Final = {
    "c": "int main() { for (;;); }",
    "java": "class A { public static void main(String[] a) { while (true) { } } }",
    "javascript": "for (;;);",
    "typescript": "for (;;);",
    "go": "package main\nfunc main() { for { } }",
    "rust": "fn main() { loop { std::hint::black_box(1); } }",
    "bash": "while :; do :; done",
}

CODES: Final = {
    "c": "int main() { return 3; }",
    "java": "class A { public static void main(String[] a) { System.exit(3); } }",
    "javascript": "process.exit(3)",
    "typescript": "process.exit(3)",
    "go": 'package main\nimport "os"\nfunc main() { os.Exit(3) }',
    "rust": "fn main() { std::process::exit(3) }",
    "bash": "exit 3",
}

SLEEPS: Final = {
    "c": "#include <unistd.h>\nint main() { sleep(60); }",
    "java": (
        "class A { public static void main(String[] a) throws Exception { Thread.sleep(60000); } }"
    ),
    "javascript": "setTimeout(() => {}, 60000)",
    "typescript": "setTimeout(() => {}, 60000)",
    "go": 'package main\nimport "time"\nfunc main() { time.Sleep(time.Minute) }',
    "rust": "fn main() { std::thread::sleep(std::time::Duration::from_secs(60)) }",
    "bash": "sleep 60",
}

FLOODS: Final = {
    "c": '#include <stdio.h>\nint main() { for (;;) puts("xxxxxxxxxxxxxxxxxxxxxxxx"); }',
    "java": (
        "class A { public static void main(String[] a) {\n"
        '  String s = "x".repeat(100000); while (true) System.out.println(s); } }'
    ),
    "javascript": 'for (;;) require("fs").writeSync(1, "x".repeat(100000))',
    "typescript": 'for (;;) require("fs").writeSync(1, "x".repeat(100000))',
    "go": (
        'package main\nimport ("fmt"; "strings")\n'
        'func main() { s := strings.Repeat("x", 100000); for { fmt.Println(s) } }'
    ),
    "rust": 'fn main() { let s = "x".repeat(100000); loop { println!("{}", s); } }',
    "bash": "yes",
}

HOGS: Final = {
    "c": (
        "#include <stdlib.h>\n#include <string.h>\nint main() {\n"
        "  for (;;) { char *p = malloc(1 << 24); if (!p) return 1; memset(p, 1, 1 << 24); } }"
    ),
    "java": (
        "import java.util.*;\nclass A { public static void main(String[] a) {\n"
        "  List<long[]> kept = new ArrayList<>(); while (true) kept.add(new long[1 << 20]); } }"
    ),
    "javascript": ("const kept = []; for (;;) kept.push(Buffer.alloc(1 << 24, 1));"),
    "typescript": "const kept: Buffer[] = []; for (;;) kept.push(Buffer.alloc(1 << 24, 1));",
    "go": (
        "package main\nfunc main() { var kept [][]byte\n  for { b := make([]byte, 1<<24)\n"
        "    for i := range b { b[i] = 1 }\n    kept = append(kept, b) } }"
    ),
    "rust": "fn main() { let mut kept = Vec::new(); loop { kept.push(vec![1u8; 1 << 24]); } }",
    "bash": "s=x; while :; do s=$s$s; done",
}

NOT_PROGRAMS: Final = {
    "c": "int main() { return x; }",
    "java": "public class A { void f() { return 1; } }",
    "typescript": "const = 3;",
    "go": "package main\nfunc main() { return 1 }",
    "rust": 'fn main() { let x: i32 = "a"; }',
}
