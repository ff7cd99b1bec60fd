"""Methods of datasets that read records and text: examples, JSON, CSV, tokens.

Owns the translation of arguments into parameters of native operations. Refuses to know how records are parsed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ._dtypes import as_dtype, int64
from ._features import constant_of, features_of
from ._spec import plain
from .errors import InvalidArgumentError

if TYPE_CHECKING:
    from ._dataset import Dataset
    from ._millstream import Graph

__all__ = ["ParsingMethods"]


class ParsingMethods:
    """Operations of a dataset that parse one component; an empty name is the only component."""

    _graph: Graph

    def _then(self, graph: Graph) -> Dataset:
        raise NotImplementedError

    def parse_example(self, features: Mapping[str, Any], component: str = "") -> Dataset:
        """Parses serialised ``tf.train.Example`` records, one or a vector of them, as ``tf.io.parse_example`` does.

        Args:
            features: A ``FixedLenFeature``, ``VarLenFeature``, ``RaggedFeature`` or ``FixedLenSequenceFeature`` by name.
            component: The component that holds the records; empty if it is the whole element.

        Returns:
            The new dataset, of dicts: the features instead of the component, beside the other components.

        Raises:
            DataLossError: A record is damaged. Raised when the record is read.
            InvalidArgumentError: A record lacks a feature that has no default, or has another number of values. Raised when it is read.

        Example:
            >>> record = bytes.fromhex("0a0c0a0a0a016112051a030a0107")
            >>> dataset = ms.Dataset.from_tensors(record).parse_example({"a": ms.FixedLenFeature([], ms.int64)})
            >>> next(iter(dataset))
            {'a': np.int64(7)}
        """
        return self._then(self._graph.then("parse_example", component=component, features=features_of(features)))

    def parse_sequence_example(
        self,
        context_features: Mapping[str, Any] | None = None,
        sequence_features: Mapping[str, Any] | None = None,
        component: str = "",
    ) -> Dataset:
        """Parses one serialised ``tf.train.SequenceExample``, as ``tf.io.parse_single_sequence_example`` does.

        Args:
            context_features: The features of the context, by name.
            sequence_features: The lists of features, by name. A list becomes a tensor with a row for each of its features.
            component: The component that holds the record; empty if it is the whole element.

        Returns:
            The new dataset, of dicts: the features instead of the component, beside the other components.
        """
        return self._then(
            self._graph.then(
                "parse_sequence_example",
                component=component,
                context=features_of(context_features or {}),
                sequences=features_of(sequence_features or {}, in_sequence=True),
            )
        )

    def parse_json(
        self,
        fields: Mapping[str, Any],
        component: str = "",
        *,
        paths: Mapping[str, str] | None = None,
        defaults: Mapping[str, Any] | None = None,
    ) -> Dataset:
        """Reads fields of a document of JSON.

        Args:
            fields: A ``TensorSpec`` for each field, by the name of its component.
            component: The component that holds the document; empty if it is the whole element.
            paths: Where a field is in the document, by name: keys, and indices of arrays, joined by dots, such as ``meta.url``. A field
                without a path is the entry of its name.
            defaults: The value of a field that is missing or null, by name. Without it, a missing field is an error.

        Returns:
            The new dataset, of dicts: the fields instead of the component, beside the other components.

        Example:
            >>> documents = ms.Dataset.from_tensors('{"text": "Hi", "meta": {"stars": 4}}')
            >>> wanted = {"text": ms.TensorSpec((), ms.string), "stars": ms.TensorSpec((), ms.int64)}
            >>> next(iter(documents.parse_json(wanted, paths={"stars": "meta.stars"})))
            {'text': 'Hi', 'stars': np.int64(4)}
        """
        paths, defaults = paths or {}, defaults or {}
        wanted = []
        for name, spec in fields.items():
            kind, *described = plain(spec)
            if kind != "tensor":
                raise InvalidArgumentError(f"field {name!r}: expected a TensorSpec, found {spec!r}")
            dtype, dims = described
            if dims is None:
                raise InvalidArgumentError(f"field {name!r}: expected a known number of dimensions, found an unknown rank")
            default = constant_of(defaults[name], dtype) if name in defaults else None
            wanted.append({"name": name, "path": paths.get(name, name), "dtype": dtype, "dims": dims, "default": default})
        return self._then(self._graph.then("parse_json", component=component, fields=wanted))

    def decode_csv(
        self,
        columns: Mapping[str, Any] | Sequence[tuple[str, Any] | None],
        component: str = "",
        *,
        defaults: Mapping[str, Any] | None = None,
        delimiter: str = ",",
        quoted: bool = True,
        missing: str = "",
    ) -> Dataset:
        """Splits lines of comma-separated values into columns, as ``tf.io.decode_csv`` does.

        Args:
            columns: The dtype of each column by name, in the order of the fields. In a list of pairs, ``None`` skips a field.
            component: The component that holds the lines; empty if it is the whole element.
            defaults: The value of a missing field, by name. Without it, a missing number is an error and a missing text is empty.
            delimiter: The separator of fields, one character of ASCII.
            quoted: Whether fields may be in double quotes.
            missing: A text that marks a missing field, besides the empty text.

        Returns:
            The new dataset, of dicts: the columns instead of the component, beside the other components.

        Example:
            >>> lines = ms.Dataset.from_tensor_slices(["1,2.5", "3,4.5"])
            >>> [float(row["price"]) for row in lines.decode_csv({"id": "int64", "price": "float32"})]
            [2.5, 4.5]
        """
        if len(delimiter) != 1 or not delimiter.isascii():
            raise ValueError(f"expected one ASCII character as delimiter, found {delimiter!r}")
        defaults = defaults or {}
        wanted: list[dict[str, Any]] = []
        for column in columns.items() if isinstance(columns, Mapping) else columns:
            if column is None:
                wanted.append({"dtype": "string", "skipped": True})
                continue
            name, dtype = column
            default = constant_of(defaults[name], dtype) if name in defaults else None
            wanted.append({"name": name, "dtype": as_dtype(dtype).code, "default": default})
        return self._then(
            self._graph.then(
                "decode_csv",
                component=component,
                columns=wanted,
                delimiter=ord(delimiter),
                quoted=bool(quoted),
                missing=missing,
            )
        )

    def split_ragged(self, component: str = "", sep: str | None = None, maxsplit: int = -1) -> Dataset:
        """Splits each text of a vector, as ``tf.strings.split`` does: the parts are a ragged tensor.

        Args:
            component: The component that holds the texts; empty if it is the whole element.
            sep: The separator; white space of any length by default.
            maxsplit: The largest number of splits of a text; -1 for all.

        Returns:
            The new dataset.

        Example:
            >>> next(iter(ms.Dataset.from_tensors(["a b", "c"]).split_ragged())).to_list()
            [['a', 'b'], ['c']]
        """
        split = {"separator": sep or None, "cuts_max": None if maxsplit < 0 else maxsplit}
        return self._then(self._graph.then("split_ragged", component=component, split=split))

    def tokenise(
        self,
        tokeniser: Any,
        component: str = "",
        *,
        dtype: Any = int64,
        special_tokens: bool = True,
        max_tokens: int | None = None,
    ) -> Dataset:
        """Turns a text into the ids of its tokens, natively and without a Python process.

        Args:
            tokeniser: The path or URL of a ``tokenizer.json``; or a ``tokenizers.Tokenizer``; or a fast tokenizer of ``transformers``.
            component: The component that holds the text; empty if it is the whole element.
            dtype: ``int32`` or ``int64``.
            special_tokens: Whether the tokenizer adds its special tokens.
            max_tokens: The largest number of ids; later ones are dropped. All by default.

        Returns:
            The new dataset, with a vector of ids instead of the text.
        """
        return self._then(
            self._graph.then(
                "tokenise",
                component=component,
                tokeniser=_tokeniser(tokeniser),
                dtype=as_dtype(dtype).code,
                special_tokens=bool(special_tokens),
                ids_max=max_tokens,
            )
        )

    tokenize = tokenise

    def pack_sequences(
        self,
        component: str,
        length: int,
        *,
        separator: int | None = None,
        padding: int = 0,
        cut: str = "anywhere",
        drop_remainder: bool = False,
    ) -> Dataset:
        """Puts sequences of tokens one after the other into rows of one length, for training language models.

        Args:
            component: The component that holds the tokens, a vector of integers; empty if it is the whole element.
            length: Tokens of a row.
            separator: A token that is added after each sequence, such as the end of a text.
            padding: The token that fills a row that is not full.
            cut: ``"anywhere"`` continues a sequence in the next row; ``"too_long"`` does so only for a sequence longer than a row, and pads
                the row before any other sequence that does not fit.
            drop_remainder: Whether the last row is dropped if it is not full.

        Returns:
            The new dataset, of dicts: ``tokens``, ``segment_ids`` (from 1; 0 is padding) and ``positions`` within each sequence.

        Example:
            >>> texts = ms.Dataset.from_tensor_slices([1, 2, 3]).map(lambda x: ms.ops.reshape(x, [1]))
            >>> row = next(iter(texts.pack_sequences("", 5, separator=9)))
            >>> row["tokens"].tolist(), row["segment_ids"].tolist()
            ([1, 9, 2, 9, 3], [1, 1, 2, 2, 3])
        """
        return self._then(
            self._graph.then(
                "pack_sequences",
                component=component,
                length=length,
                separator=separator,
                padding=padding,
                cut=cut,
                drop_remainder=bool(drop_remainder),
            )
        )


def _tokeniser(tokeniser: Any) -> dict[str, str]:
    """Returns the tokenizer as the operation holds it: the path of a file, or the text of one."""
    if isinstance(tokeniser, str | os.PathLike):
        return {"file": os.fspath(tokeniser)}
    fast = getattr(tokeniser, "backend_tokenizer", tokeniser)
    if not hasattr(fast, "to_str"):
        raise TypeError(
            "expected the path of a tokenizer.json, a tokenizers.Tokenizer, or a fast tokenizer of transformers, "
            f"found {type(tokeniser).__name__}"
        )
    return {"given": fast.to_str()}
