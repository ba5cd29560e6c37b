package operation

import (
	"bytes"
	"testing"

	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/notation"
)

func TestTheFormsOfAFile(t *testing.T) {
	for _, test := range []struct {
		text string
		want File
		bad  bool
	}{
		{text: `"//home/ann/tool"`, want: File{Name: "tool", TreePath: "//home/ann/tool"}},
		{text: `{$value: "//home/ann/tool", $attributes: {file_name: bin/t, executable: true}}`, want: File{Name: "bin/t", TreePath: "//home/ann/tool", Executable: document.Some(true)}},
		{text: `"/opt/data/../x"`, want: File{Name: "x", NodePath: "/opt/x"}},
		{text: `"file:/opt/x"`, want: File{Name: "x", NodePath: "/opt/x"}},
		{text: `{file_name: a, content: "text"}`, want: File{Name: "a", Content: []byte("text")}},
		{text: `{file_name: a, content_base64: "AP8=", executable: false}`, want: File{Name: "a", Content: []byte{0, 0xff}, Executable: document.Some(false)}},
		{text: `{$value: "//home/ann/src.tar", $attributes: {file_name: src, unpack: true}}`, want: File{Name: "src", TreePath: "//home/ann/src.tar", Unpack: true}},
		{text: `{file_name: a, content: "text", unpack: false}`, want: File{Name: "a", Content: []byte("text")}},
		{text: `{$value: "/opt/src.tar", $attributes: {unpack: true}}`, bad: true},
		{text: `{file_name: a, content: x, unpack: yes please}`, bad: true},
		{text: `"tool"`, bad: true},
		{text: `"../x"`, bad: true},
		{text: `"/"`, bad: true},
		{text: `7`, bad: true},
		{text: `{file_name: ../a, content: x}`, bad: true},
		{text: `{file_name: /a, content: x}`, bad: true},
		{text: `{file_name: ".", content: x}`, bad: true},
		{text: `{content: x}`, bad: true},
		{text: `{file_name: a}`, bad: true},
		{text: `{file_name: a, content: x, content_base64: eA==}`, bad: true},
		{text: `{file_name: a, content_base64: "*"}`, bad: true},
		{text: `{file_name: a, content: x, executable: 1}`, bad: true},
		{text: `{$value: "//a", $attributes: {file_name: 7}}`, bad: true},
	} {
		v, err := notation.ParseYAML("", []byte(test.text))
		if err != nil {
			t.Fatalf("%s: %v", test.text, err)
		}
		got, ok := ReadFile(v)
		if ok == test.bad {
			t.Errorf("%s: accepted is %v, want %v", test.text, ok, !test.bad)
			continue
		}
		if ok && (got.Name != test.want.Name || got.TreePath != test.want.TreePath || got.NodePath != test.want.NodePath ||
			got.Executable != test.want.Executable || got.Unpack != test.want.Unpack || !bytes.Equal(got.Content, test.want.Content)) {
			t.Errorf("%s: got %+v, want %+v", test.text, got, test.want)
		}
	}
}

func TestAnInlineFileIsReadBackAsItWas(t *testing.T) {
	for _, content := range []string{"", "text\n", "\x00\xff\xfe"} {
		f := File{Name: "a/b", Content: []byte(content), Executable: document.Some(true), Unpack: content != ""}
		text, err := f.Inline().JSON("")
		if err != nil {
			t.Fatal(err)
		}
		v, err := notation.ParseJSON("", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := ReadFile(v); !ok || got.Name != f.Name || got.Unpack != f.Unpack || !got.Executable.Value() || string(got.Content) != content {
			t.Errorf("%q: got %+v, %v", content, got, ok)
		}
	}
}
