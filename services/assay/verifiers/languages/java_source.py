"""What a Java source says about its file, and what its class files say about `main`. Pure.

Both read hostile bytes in one pass; whatever they cannot read has no public class, or no `main`.
"""

import io
import re
import struct
import tarfile
import zipfile
from collections.abc import Iterator
from typing import Final

MAIN_FILE: Final = "Main.java"
CLASSES_MAX: Final = 4_096
_HIDDEN: Final = re.compile(
    rb'//[^\n]*|/\*.*?(?:\*/|\Z)|"""(?:\\.|[^\\])*?"""|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'',
    re.S,
)
_TOKEN: Final = re.compile(rb"[{}]|[A-Za-z_$\x80-\xff][A-Za-z0-9_$\x80-\xff]*")
_KINDS: Final = frozenset({b"class", b"interface", b"enum", b"record"})
_PUBLIC_STATIC: Final = 0x0009
_SIZES: Final = {
    3: 4,
    4: 4,
    7: 2,
    8: 2,
    9: 4,
    10: 4,
    11: 4,
    12: 4,
    15: 3,
    16: 2,
    17: 4,
    18: 4,
    19: 2,
    20: 2,
}
"""Bytes of a constant by its tag (JVM specification 4.4), without texts and the double-width."""
_WIDE: Final = frozenset({5, 6})
_MAIN: Final = (b"main", b"([Ljava/lang/String;)V")
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)


class NoMain(ValueError):
    """No class has a method `public static void main(String[])`."""


def java_file(source: bytes) -> str:
    """The name that javac wants for a file: that of its public type, or `Main.java`."""
    text = _HIDDEN.sub(b" ", source)
    depth, is_public, is_named = 0, False, False
    for token in _TOKEN.findall(text):
        if token == b"{":
            depth, is_public = depth + 1, False
        elif token == b"}":
            depth, is_public = depth - 1, False
        elif depth == 0 and is_named:
            return f"{token.decode('utf-8', 'replace')}.java"
        elif depth == 0 and token in _KINDS and is_public:
            is_named = True
        elif depth == 0 and token == b"public":
            is_public = True
    return MAIN_FILE


def jar_of(classes: bytes, file: str = MAIN_FILE) -> bytes:
    """Make a program of the class files in a tar archive.

    It begins at `Main`, else at the public class, else at the first by name; a class inside of
    another is not where a program begins, if any other class has a `main`.

    Args:
        classes: the archive.
        file: of the source, which has the name of the public class.

    Raises:
        NoMain: there is no class to begin with.
        tarfile.TarError: it is not an archive.
    """
    found = dict(_class_files(classes))
    mains = [name for name, content in found.items() if has_main(content)]
    if not mains:
        raise NoMain("no class has a method public static void main(String[])")

    def rank(path: str) -> tuple[bool, bool, bool, str]:
        name = path.rpartition("/")[2].removesuffix(".class")
        return name != "Main", name != file.removesuffix(".java"), "$" in name, path

    first = min(mains, key=rank)
    manifest = f"Manifest-Version: 1.0\nMain-Class: {_class_name(first)}\n\n"
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as jar:
        jar.writestr(zipfile.ZipInfo("META-INF/MANIFEST.MF", _EPOCH), _folded(manifest))
        for name, content in sorted(found.items()):
            jar.writestr(zipfile.ZipInfo(name, _EPOCH), content)
    return made.getvalue()


def _class_files(classes: bytes) -> Iterator[tuple[str, bytes]]:
    with tarfile.open(fileobj=io.BytesIO(classes), mode="r:") as archive:
        for at, member in enumerate(archive):
            if at >= CLASSES_MAX:
                raise NoMain(f"more than {CLASSES_MAX} classes")
            file = archive.extractfile(member) if member.isreg() else None
            name = member.name.removeprefix("./")
            if file is not None and name.endswith(".class"):
                yield name, file.read()


def _class_name(file: str) -> str:
    return file.removesuffix(".class").replace("/", ".")


def _folded(manifest: str) -> bytes:
    """Lines of a manifest have at most 72 bytes; longer ones continue after a space."""
    lines = []
    for line in manifest.split("\n"):
        rest = line.encode()
        while len(rest) > 72:
            lines.append(rest[:72])
            rest = b" " + rest[72:]
        lines.append(rest)
    return b"\r\n".join(lines)


def has_main(content: bytes) -> bool:
    """Whether a class file has the method that the virtual machine begins with."""
    try:
        return _has_main(content)
    except (struct.error, IndexError, KeyError):
        return False


def _has_main(content: bytes) -> bool:
    texts, at = _constants(content)
    (interfaces,) = struct.unpack_from(">H", content, at + 6)
    at += 8 + 2 * interfaces
    for kind in ("fields", "methods"):
        (count,) = struct.unpack_from(">H", content, at)
        at += 2
        for _ in range(count):
            access, name, form, attributes = struct.unpack_from(">4H", content, at)
            at += 8
            for _ in range(attributes):
                (size,) = struct.unpack_from(">I", content, at + 2)
                at += 6 + size
            is_main = (texts.get(name), texts.get(form)) == _MAIN
            if kind == "methods" and is_main and access & _PUBLIC_STATIC == _PUBLIC_STATIC:
                return True
    return False


def _constants(content: bytes) -> tuple[dict[int, bytes], int]:
    """The texts of the constant pool, and where it ends."""
    (count,) = struct.unpack_from(">H", content, 8)
    texts, at, number = dict[int, bytes](), 10, 1
    while number < count:
        tag = content[at]
        if tag == 1:
            (size,) = struct.unpack_from(">H", content, at + 1)
            texts[number] = content[at + 3 : at + 3 + size]
            at += 3 + size
        elif tag in _WIDE:
            at, number = at + 9, number + 1
        else:
            at += 1 + _SIZES[tag]
        number += 1
    return texts, at
