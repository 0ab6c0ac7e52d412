"""Generates the types of documents from the messages of admin.proto; `make stubs` calls it.

So a field of a document is declared in the protocol alone; its option `shown` states how. Types, order and docstrings follow the
messages.
"""

from collections.abc import Iterator, Sequence
from typing import Any, cast

from google.protobuf import descriptor_pb2
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

PACKAGE = "headrace.protocol.v1"
ROOTS = (
    "GetStatusResponse",
    *("ReportedStatus", "StepMetrics", "MetricSeries", "LostVote", "Transaction"),
    *("Event", "ListBatchesResponse", "BatchStatus", "BatchStreamStatus", "LocateMessageResponse", "MessageReader"),
    *("PeekResponse", "MessagePreview", "HeaderPreview", "BytesPreview"),
    *("ListDeadLettersResponse", "SinkDeadLetters", "DeadLetter"),
)
"""The messages that are documents, or whose parts are if they are not in `NAMES`."""
NAMES = {
    "AcknowledgementHolder": "HolderDocument",
    "BatchStatus": "BatchFields",
    "BatchStreamStatus": "BatchStreamFields",
    "BytesPreview": "PreviewFields",
    "ConnectorError": "ErrorDocument",
    "DeadLetter": "DeadLetterFields",
    "DeploymentStatus": "DeploymentDocument",
    "Event": "EventFields",
    "GatewayStatus": "GatewayFields",
    "HeaderPreview": "HeaderFields",
    "ListBatchesResponse": "TimelineFields",
    "ListDeadLettersResponse": "DeadLettersFields",
    "LocateMessageResponse": "MessageFields",
    "LostVote": "LostVoteFields",
    "MessagePreview": "MessagePreviewFields",
    "MessageReader": "MessageReaderFields",
    "PeekResponse": "PeekFields",
    "PipelineStatus": "PipelineFields",
    "MetricSeries": "SeriesDocument",
    "Problem": "ProblemFields",
    "ProcessState": "ProcessDocument",
    "ReportedStatus": "ReportedFields",
    "SessionStatus": "SessionFields",
    "SinkDeadLetters": "SinkDeadLettersFields",
    "SinkSessionStatus": "SinkSessionFields",
    "SinkStatus": "SinkFields",
    "StepMetrics": "StepFields",
    "StreamStatus": "StreamFields",
    "SupervisedConnector": "SupervisedDocument",
    "Transaction": "TransactionDocument",
}
"""What the document of a message is called, if not by the message. What ends with Fields is completed by the gateway."""
SEPARATORS = {"Condition": " ", "BatchStage": "_"}
"""What joins the words of the values of an enum, if not a dash."""
SCALARS = {
    FieldDescriptor.CPPTYPE_BOOL: "bool",
    FieldDescriptor.CPPTYPE_DOUBLE: "float",
    FieldDescriptor.CPPTYPE_INT32: "int",
    FieldDescriptor.CPPTYPE_INT64: "int",
    FieldDescriptor.CPPTYPE_UINT32: "int",
    FieldDescriptor.CPPTYPE_UINT64: "int",
    FieldDescriptor.CPPTYPE_STRING: "str",
}
HEAD = '''"""The types of documents, generated from admin.proto. Sizes are in bytes and times in milliseconds."""

from typing import Literal

# Pydantic, which makes the JSON schemas, needs this one before Python 3.12.
from typing_extensions import TypedDict
'''
OR_NULL, NOT = 1, 2
OF_OTHER_FILES = {
    "ConnectorError.stream": OR_NULL,
    "Position.begin": NOT,
    "StepMetrics.ahead": NOT,
    "StepMetrics.fired": NOT,
    "StepMetrics.time_us": NOT,
    "Transaction.run": NOT,
}
"""How the fields are shown of files that admin.proto imports, which cannot state the option."""


class Documents:
    """The text of the module, as it grows."""

    def __init__(self, descriptors: bytes) -> None:
        """Reads a set of descriptors with comments, as protoc writes it."""
        self._pool = DescriptorPool()
        files = descriptor_pb2.FileDescriptorSet.FromString(descriptors)
        for file in files.file:
            self._pool.Add(file)
        self._extension: Any = self._pool.FindExtensionByName(f"{PACKAGE}.shown")
        self._options = GetMessageClass(self._pool.FindMessageTypeByName("google.protobuf.FieldOptions"))
        self._comments = dict(_comments(files))
        self._made: dict[str, str] = {}

    def text(self) -> str:
        """Returns the module."""
        for name in ROOTS:
            message = self._pool.FindMessageTypeByName(f"{PACKAGE}.{name}")
            if name in NAMES:
                self._document(message)
                continue
            for field in message.fields:
                if field.message_type is not None:
                    self._document(field.message_type)
        return "\n\n".join([HEAD, *self._made.values()])

    def _document(self, message: Descriptor) -> str:
        """Adds the type of a message, after the types in it. Returns its name."""
        name = NAMES.get(message.name, message.name.removesuffix("Status") + "Document")
        if name not in self._made:
            fields = [f"    {field.name}: {self._type(field)}\n" for field in message.fields if self._shown(field) != NOT]
            self._made[name] = f'class {name}(TypedDict):\n    """{self._comments[message.full_name]}"""\n\n{"".join(fields)}'
        return name

    def _type(self, field: FieldDescriptor) -> str:
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            key, value = field.message_type.fields
            return f"dict[{self._of_one(key)}, {self._of_one(value)}]"
        one = self._of_one(field)
        if field.is_repeated:
            return f"list[{one}]"
        return f"{one} | None" if field.has_presence or self._shown(field) == OR_NULL else one

    def _of_one(self, field: FieldDescriptor) -> str:
        if field.message_type is not None:
            return self._document(field.message_type)
        if field.enum_type is not None:
            return self._words(field.enum_type)
        # Bytes become base64.
        return "str" if field.type == FieldDescriptor.TYPE_BYTES else SCALARS[field.cpp_type]

    def _words(self, enum: EnumDescriptor) -> str:
        """Adds the words of an enum. Returns their name."""
        prefix = enum.values_by_number[0].name.removesuffix("UNSPECIFIED")
        separator = SEPARATORS.get(enum.name, "-")
        words = [value.name.removeprefix(prefix).lower().replace("_", separator) for value in enum.values if value.number]
        listed = "".join(f'    "{word}",\n' for word in words)
        self._made[enum.name] = f'{enum.name} = Literal[\n{listed}]\n"""{self._comments[enum.full_name]}"""\n'
        return enum.name

    def _shown(self, field: FieldDescriptor) -> int:
        if (name := field.full_name.removeprefix(f"{PACKAGE}.")) in OF_OTHER_FILES:
            return OF_OTHER_FILES[name]
        options = self._options.FromString(field.GetOptions().SerializeToString())
        return cast(int, options.Extensions[self._extension])


def _comments(files: descriptor_pb2.FileDescriptorSet) -> Iterator[tuple[str, str]]:
    """Yields the comment of each message and enum at the top of a file."""
    for file in files.file:
        kinds: dict[int, Sequence[Any]] = {
            file.MESSAGE_TYPE_FIELD_NUMBER: file.message_type,
            file.ENUM_TYPE_FIELD_NUMBER: file.enum_type,
        }
        for place in file.source_code_info.location:
            if len(place.path) == 2 and place.path[0] in kinds:
                kind, index = place.path
                yield f"{file.package}.{kinds[kind][index].name}", " ".join(place.leading_comments.split())
