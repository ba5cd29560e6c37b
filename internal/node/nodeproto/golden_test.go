package nodeproto_test

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
)

// revision is the directory with the golden files of the current format. When the format grows, create
// a new directory with -golden and name it here. Keep the old ones permanently: nodes and schedulers of
// these versions still exist.
const revision = "r8"

var writeGolden = flag.Bool("golden", false, "write the golden files of the present revision")

// messages returns the types of node.proto.
func messages() (types []protoreflect.MessageType) {
	descriptors := nodev1.File_internal_node_nodeproto_nodev1_node_proto.Messages()
	for i := range descriptors.Len() {
		found, err := protoregistry.GlobalTypes.FindMessageByName(descriptors.Get(i).FullName())
		if err != nil {
			panic(err)
		}
		types = append(types, found)
	}
	return types
}

// choices returns the members of a message's oneof; one empty name if it has none.
func choices(m protoreflect.MessageDescriptor) (names []protoreflect.Name) {
	for i := range m.Oneofs().Len() {
		if oneof := m.Oneofs().Get(i); !oneof.IsSynthetic() {
			for j := range oneof.Fields().Len() {
				names = append(names, oneof.Fields().Get(j).Name())
			}
		}
	}
	if names == nil {
		names = []protoreflect.Name{""}
	}
	return names
}

// fill sets every field of a message to a different value, so that swapped fields are detected. Of a
// oneof it sets choice, in nested messages the first member. Recursion ends after a few levels.
func fill(m protoreflect.Message, choice protoreflect.Name, counter *int, depth int) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		if field.Message() != nil && depth == 0 {
			continue
		}
		if oneof := field.ContainingOneof(); oneof != nil && !oneof.IsSynthetic() && field.Name() != choice {
			continue
		}
		if field.IsList() {
			list := m.Mutable(field).List()
			for range 2 {
				if field.Message() != nil {
					element := list.AppendMutable().Message()
					fill(element, choices(element.Descriptor())[0], counter, depth-1)
				} else {
					list.Append(scalar(field, counter))
				}
			}
			continue
		}
		if field.Message() != nil {
			inner := m.Mutable(field).Message()
			fill(inner, choices(inner.Descriptor())[0], counter, depth-1)
		} else {
			m.Set(field, scalar(field, counter))
		}
	}
}

func scalar(field protoreflect.FieldDescriptor, counter *int) protoreflect.Value {
	*counter++
	n := *counter
	switch field.Kind() {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(true)
	case protoreflect.EnumKind:
		values := field.Enum().Values()
		return protoreflect.ValueOfEnum(values.Get(1 + n%(values.Len()-1)).Number())
	case protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32(int32(n) << 3)
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(int64(n) << 33)
	case protoreflect.Uint32Kind:
		return protoreflect.ValueOfUint32(uint32(n))
	case protoreflect.Uint64Kind:
		return protoreflect.ValueOfUint64(uint64(n) << 40)
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(float64(n) / 4)
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte{byte(n), 0, 0xff})
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(string(field.Name()) + " é")
	}
	panic("a kind of field that is not expected: " + field.Kind().String())
}

// golden is a file with the bytes of a message and the same message as text.
type golden struct {
	bytes []byte
	text  string
}

func readGolden(t *testing.T, path string) (g golden) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	digits, text, _ := strings.Cut(string(data), "\n\n")
	var packed strings.Builder
	for scanner := bufio.NewScanner(strings.NewReader(digits)); scanner.Scan(); {
		packed.WriteString(scanner.Text())
	}
	if g.bytes, err = hex.DecodeString(packed.String()); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	g.text = text
	return g
}

func goldenFile(bytes []byte, m proto.Message) []byte {
	var out strings.Builder
	for digits := hex.EncodeToString(bytes); digits != ""; {
		line := digits[:min(96, len(digits))]
		out.WriteString(line + "\n")
		digits = digits[len(line):]
	}
	out.WriteString("\n")
	text := prototext.MarshalOptions{Multiline: true, Indent: "  "}.Format(m)
	// The package varies spaces on purpose; the parser ignores their number.
	out.WriteString(strings.ReplaceAll(text, ":  ", ": "))
	return []byte(out.String())
}

func TestTheWireFormatIsThatOfTheGoldenFiles(t *testing.T) {
	dir := filepath.Join("testdata", "golden", revision)
	for i, kind := range messages() {
		for j, choice := range choices(kind.Descriptor()) {
			m := kind.New()
			counter := i*1000 + j*100
			fill(m, choice, &counter, 3)
			wire, err := proto.MarshalOptions{Deterministic: true}.Marshal(m.Interface())
			if err != nil {
				t.Fatal(err)
			}
			name := strings.TrimSuffix(string(kind.Descriptor().Name())+"."+string(choice), ".")
			path := filepath.Join(dir, name+".golden")
			if *writeGolden {
				if err := os.MkdirAll(dir, 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, goldenFile(wire, m.Interface()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if want := readGolden(t, path); !bytes.Equal(wire, want.bytes) {
				t.Errorf("%s is %x on the wire, the golden file has %x; a format that grows gets a new revision", name, wire, want.bytes)
			}
		}
	}
}

func TestOldBytesStillMeanTheSame(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join("testdata", "golden", "*", "*.golden"))
	if err != nil || len(paths) < len(messages()) {
		t.Fatalf("%d golden files for %d messages, %v", len(paths), len(messages()), err)
	}
	for _, path := range paths {
		message, _, _ := strings.Cut(filepath.Base(path), ".")
		name := protoreflect.FullName("weir.node.v1." + message)
		kind, err := protoregistry.GlobalTypes.FindMessageByName(name)
		if err != nil {
			t.Errorf("%s: the message is gone: %v", path, err)
			continue
		}
		g := readGolden(t, path)
		decoded, parsed := kind.New().Interface(), kind.New().Interface()
		if err := proto.Unmarshal(g.bytes, decoded); err != nil {
			t.Errorf("%s: %v", path, err)
		}
		if err := prototext.Unmarshal([]byte(g.text), parsed); err != nil {
			t.Errorf("%s: a name has changed: %v", path, err)
		}
		if !proto.Equal(decoded, parsed) {
			t.Errorf("%s: the bytes mean %v now, and meant %v", path, decoded, parsed)
		}
	}
}

func TestFieldsOfALaterFormatSurvive(t *testing.T) {
	for _, kind := range messages() {
		m := kind.New()
		counter := 0
		fill(m, choices(kind.Descriptor())[0], &counter, 3)
		wire, err := proto.Marshal(m.Interface())
		if err != nil {
			t.Fatal(err)
		}
		later := protowire.AppendTag(wire, 1999, protowire.BytesType)
		later = protowire.AppendBytes(later, []byte("from the future"))
		back := kind.New().Interface()
		if err := proto.Unmarshal(later, back); err != nil {
			t.Fatal(err)
		}
		again, err := proto.Marshal(back)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(again, []byte("from the future")) {
			t.Errorf("%s drops a field that it does not know", kind.Descriptor().Name())
		}
	}
}
