package jobproxy

import (
	"bytes"
	"testing"
)

func TestAPartOfAStreamBeginsAtTheNextByteThatIsKept(t *testing.T) {
	dir := t.TempDir()
	k := newKeeper(dir, "stderr", 10_000)
	var all []byte
	for i := range 20_000 {
		all = append(all, byte(i), byte(i>>8))
	}
	if _, err := k.Write(all); err != nil {
		t.Fatal(err)
	}
	k.Close()
	buffer := make([]byte, 3000)
	got, skipped := []byte{}, int64(0)
	for offset := int64(0); ; {
		part, err := ReadPart(dir, "stderr", offset, buffer)
		if err != nil {
			t.Fatal(err)
		}
		if part.Size != int64(len(all)) {
			t.Fatalf("the stream has %d bytes", part.Size)
		}
		if len(part.Data) == 0 {
			break
		}
		if !bytes.Equal(part.Data, all[part.Offset:part.End()]) {
			t.Fatalf("the bytes from %d on are others", part.Offset)
		}
		skipped += part.Offset - offset
		got, offset = append(got, part.Data...), part.End()
	}
	if skipped == 0 || int64(len(got))+skipped != int64(len(all)) {
		t.Errorf("%d bytes came, %d were skipped, of %d", len(got), skipped, len(all))
	}
	if part, err := ReadPart(dir, "stdout", 5, buffer); err != nil || part.Size != 0 || len(part.Data) != 0 {
		t.Errorf("a stream without a byte: %+v, %v", part, err)
	}
	if _, err := ReadPart(dir+"/gone", "stderr", 0, buffer); err == nil {
		t.Error("a job that does not exist has output")
	}
}

func TestBadSessionsAreRefused(t *testing.T) {
	for _, request := range []*SessionRequest{
		nil, {Command: "a\x00b"}, {Arguments: []string{"a", "\x00"}}, {Environment: []Variable{{Name: ""}}}, {Environment: []Variable{{Name: "A=B"}}},
		{Environment: []Variable{{Name: "A", Value: "\x00"}}},
	} {
		if request.check() == nil {
			t.Errorf("%+v is accepted", request)
		}
	}
}
