"""The methods and fields that the classes of a JAR use, and those that other JARs have."""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

_MAGIC = 0xCAFEBABE
# The sizes of the entries of a constant pool without their tags (The Java Virtual Machine
# Specification, 4.4). The text of a Utf8 follows its size.
_UTF8 = 1
_SIZES = {3: 4, 4: 4, 5: 8, 6: 8, 7: 2, 8: 2, 9: 4, 10: 4, 11: 4, 12: 4, 15: 3, 16: 2}
_SIZES |= {17: 4, 18: 4, 19: 2, 20: 2}
_WIDE = (5, 6)  # Long and Double take two indexes
_CLASS, _NAME_AND_TYPE = 7, 12
_REFERENCES = (9, 10, 11)
_OF_OBJECT = ("<init>", "getClass", "hashCode", "equals", "toString", "notifyAll", "wait", "clone")


class Member(NamedTuple):
    """A method or a field, with the descriptor of its type."""

    name: str
    descriptor: str


class ClassFile:
    """A class.

    Parameters
    ----------
    data : bytes
        The class file.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._pool: dict[int, tuple[int, bytes]] = {}
        magic, _, count = struct.unpack_from(">IIH", data)
        assert magic == _MAGIC
        at, index = 10, 1
        while index < count:
            tag = data[at]
            size = 2 + self._short(at + 1) if tag == _UTF8 else _SIZES[tag]
            self._pool[index] = (tag, data[at + 1 : at + 1 + size])
            at += 1 + size
            index += 2 if tag in _WIDE else 1
        self.supers = [self._class(self._short(at + 4))] if self._short(at + 4) else []
        interfaces = self._short(at + 6)
        self.supers += [self._class(self._short(at + 8 + 2 * n)) for n in range(interfaces)]
        self.members: set[Member] = set()
        at += 8 + 2 * interfaces
        for _ in ("fields", "methods"):
            at = self._read_members(at)

    def references(self) -> Iterator[tuple[str, Member]]:
        """Return the members of other classes that this one uses, with their classes."""
        for tag, entry in self._pool.values():
            if tag in _REFERENCES:
                owner, pair = struct.unpack(">HH", entry)
                name, descriptor = struct.unpack(">HH", self._pool[pair][1])
                yield self._class(owner), Member(self._text(name), self._text(descriptor))

    def _read_members(self, at: int) -> int:
        count = self._short(at)
        at += 2
        for _ in range(count):
            _, name, descriptor, attributes = struct.unpack_from(">HHHH", self._data, at)
            self.members.add(Member(self._text(name), self._text(descriptor)))
            at += 8
            for _ in range(attributes):
                at += 6 + struct.unpack_from(">I", self._data, at + 2)[0]
        return at

    def _short(self, at: int) -> int:
        return int(struct.unpack_from(">H", self._data, at)[0])

    def _text(self, index: int) -> str:
        return self._pool[index][1][2:].decode("utf-8", "replace")

    def _class(self, index: int) -> str:
        return self._text(struct.unpack(">H", self._pool[index][1])[0])


class Jars:
    """The classes of JARs.

    Parameters
    ----------
    paths : iterable of Path
        The JARs.
    """

    def __init__(self, paths: Iterable[Path]) -> None:
        files = map(_opened, paths)
        self._entries = {name: file for file in files for name in file.namelist()}

    def names(self) -> list[str]:
        """Return the names of the classes, as in ``java/lang/Object``."""
        suffix = ".class"
        return [name.removesuffix(suffix) for name in self._entries if name.endswith(suffix)]

    def of(self, name: str) -> ClassFile | None:
        """Return a class; None if no JAR has it."""
        file = self._entries.get(f"{name}.class")
        return None if file is None else _class_of(file, name)

    def has(self, name: str, member: Member) -> bool:
        """Return whether a class or one that it extends has a member.

        The answer is True for each member of a class of the JDK, because no JAR here has the class.
        Object is an exception: its methods are known.
        """
        found = self.of(name)
        if found is None:
            is_of_jdk = name.startswith("java/") and name != "java/lang/Object"
            return is_of_jdk or member.name in _OF_OBJECT
        return member in found.members or any(self.has(other, member) for other in found.supers)


@cache
def _opened(path: Path) -> zipfile.ZipFile:
    return zipfile.ZipFile(path)


@cache
def _class_of(file: zipfile.ZipFile, name: str) -> ClassFile:
    return ClassFile(file.read(f"{name}.class"))
