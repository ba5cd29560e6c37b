package journal

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// magic starts every file. Its last byte is the version of the frames.
const magic = "WEIRJNL\x01"

// frameKind is what a frame contains.
type frameKind byte

const (
	headerFrame     frameKind = 'H'
	checkpointFrame frameKind = 'C' // a part of a checkpoint
	recordsFrame    frameKind = 'R'
)

// Sizes of frames.
const (
	// FrameSize is the size of contents from which a frame is full.
	FrameSize = 256 << 10
	// largestFrame bounds the contents and the data of a frame that is read.
	largestFrame = 16 << 20
	frameHead    = 1 + 3*4
)

// ErrFormat is wrapped by errors about files that are no journals, or damaged ones.
var ErrFormat = errors.New("not a valid journal")

// ErrCut reports that a journal ends inside a frame: its writer was killed, or the
// file was cut. All that comes before is valid.
var ErrCut = errors.New("the journal ends inside a frame")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Framer packs contents into frames.
type Framer struct {
	packed   bytes.Buffer
	deflater *flate.Writer
	types    *Types
}

// NewFramer returns a framer of inputs of these types.
func NewFramer(types *Types) *Framer {
	f := &Framer{types: types}
	f.deflater, _ = flate.NewWriter(&f.packed, flate.BestSpeed) // it knows this level
	return f
}

// AppendStart appends the first frames of a segment: the magic, the header and the
// checkpoint.
func (f *Framer) AppendStart(into []byte, h *Header, checkpoint []byte) []byte {
	into = f.append(append(into, magic...), headerFrame, f.types.header(h, len(checkpoint)))
	for len(checkpoint) > 0 {
		part := checkpoint[:min(len(checkpoint), FrameSize)]
		into, checkpoint = f.append(into, checkpointFrame, part), checkpoint[len(part):]
	}
	return into
}

// AppendRecords appends a frame of records.
func (f *Framer) AppendRecords(into, records []byte) []byte {
	return f.append(into, recordsFrame, records)
}

func (f *Framer) append(into []byte, kind frameKind, contents []byte) []byte {
	f.packed.Reset()
	f.deflater.Reset(&f.packed)
	_, _ = f.deflater.Write(contents) // a buffer accepts everything
	_ = f.deflater.Close()
	head := len(into)
	into = append(into, byte(kind))
	into = binary.LittleEndian.AppendUint32(into, uint32(len(contents)))
	into = binary.LittleEndian.AppendUint32(into, uint32(f.packed.Len()))
	sum := crc32.Update(crc32.Checksum(into[head:], castagnoli), castagnoli, f.packed.Bytes())
	into = binary.LittleEndian.AppendUint32(into, sum)
	return append(into, f.packed.Bytes()...)
}

// frames reads frames.
type frames struct {
	from     io.Reader
	at       int64 // where the next frame starts
	begun    bool
	head     [frameHead]byte
	data     []byte
	inflater io.ReadCloser
	contents bytes.Buffer
}

// next returns the next frame; its contents are valid until the next call. The error
// is io.EOF at the end and wraps ErrCut or ErrFormat.
func (f *frames) next() (frameKind, []byte, error) {
	for {
		if _, err := io.ReadFull(f.from, f.head[:1]); err != nil {
			return 0, nil, err // io.EOF
		}
		if f.head[0] != magic[0] {
			break
		}
		// Journals may be joined: each segment starts with the magic.
		rest := make([]byte, len(magic)-1)
		if _, err := io.ReadFull(f.from, rest); err != nil {
			return 0, nil, f.cut(err)
		}
		if string(rest[:len(rest)-1]) != magic[1:len(magic)-1] {
			return 0, nil, f.wrong("it does not start like a journal")
		}
		if version := rest[len(rest)-1]; version != magic[len(magic)-1] {
			return 0, nil, f.wrong("it has version %d, and this build reads version %d", version, magic[len(magic)-1])
		}
		f.at, f.begun = f.at+int64(len(magic)), true
	}
	if !f.begun {
		return 0, nil, f.wrong("it does not start like a journal")
	}
	if _, err := io.ReadFull(f.from, f.head[1:]); err != nil {
		return 0, nil, f.cut(err)
	}
	size, packed := binary.LittleEndian.Uint32(f.head[1:]), binary.LittleEndian.Uint32(f.head[5:])
	if size > largestFrame || packed > largestFrame {
		return 0, nil, f.wrong("a frame of %d bytes is too large", max(size, packed))
	}
	if cap(f.data) < int(packed) {
		f.data = make([]byte, packed)
	}
	f.data = f.data[:packed]
	if _, err := io.ReadFull(f.from, f.data); err != nil {
		return 0, nil, f.cut(err)
	}
	sum := crc32.Update(crc32.Checksum(f.head[:9], castagnoli), castagnoli, f.data)
	if sum != binary.LittleEndian.Uint32(f.head[9:]) {
		return 0, nil, f.wrong("the checksum of a frame differs: the file is damaged")
	}
	if err := f.inflate(int64(size)); err != nil {
		return 0, nil, err
	}
	f.at += frameHead + int64(packed)
	return frameKind(f.head[0]), f.contents.Bytes(), nil
}

func (f *frames) inflate(size int64) error {
	source := bytes.NewReader(f.data)
	if f.inflater == nil {
		f.inflater = flate.NewReader(source)
	} else if err := f.inflater.(flate.Resetter).Reset(source, nil); err != nil {
		return err
	}
	f.contents.Reset()
	n, err := io.Copy(&f.contents, io.LimitReader(f.inflater, size+1))
	if err != nil || n != size {
		return f.wrong("a frame cannot be decompressed")
	}
	return nil
}

func (f *frames) wrong(format string, args ...any) error {
	return fmt.Errorf("%w: byte %d: %s", ErrFormat, f.at, fmt.Sprintf(format, args...))
}

// cut returns the error of a read that ended too early.
func (f *frames) cut(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: byte %d", ErrCut, f.at)
	}
	return err
}
