package cli

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weirhq/weir/internal/engine/treefile"
	"github.com/weirhq/weir/internal/value/document"
)

// oneFile validates the arguments of commands that take one file name.
func oneFile(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usageErrorf("%s takes one file name, got %d", cmd.Name(), len(args))
	}
	return nil
}

// mostInput bounds the decompressed size of a file: far more than any tree, and far less than would
// do harm.
const mostInput = 1 << 30

// openInput opens a file, or the standard input if the name is -, and decompresses it if it is
// gzip. It also returns the name for messages.
func openInput(cmd *cobra.Command, name string) (input io.Reader, label string, closeInput func(), err error) {
	closeInput = func() {}
	label, source := "stdin", cmd.InOrStdin()
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return nil, "", nil, err
		}
		label, source, closeInput = name, file, func() { file.Close() }
	}
	buffered := bufio.NewReaderSize(source, 1<<16)
	if magic, _ := buffered.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		unzipped, err := gzip.NewReader(buffered)
		if err != nil {
			closeInput()
			return nil, "", nil, fmt.Errorf("%s: %w", label, err)
		}
		return unzipped, strings.TrimSuffix(label, ".gz"), closeInput, nil
	}
	return buffered, label, closeInput, nil
}

// readBounded reads a whole input that is not too long.
func readBounded(input io.Reader, label string) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(input, mostInput+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", label, err)
	}
	if len(data) > mostInput {
		return nil, fmt.Errorf("%s: has more than %d bytes", label, mostInput)
	}
	return data, nil
}

// readTree reads a file that holds one tree. Warnings go to errs.
func readTree(cmd *cobra.Command, name string, errs io.Writer) (*treefile.File, error) {
	input, label, closeInput, err := openInput(cmd, name)
	if err != nil {
		return nil, err
	}
	defer closeInput()
	data, err := readBounded(input, label)
	if err != nil {
		return nil, err
	}
	file, warnings, err := treefile.Read(label, data)
	printWarnings(errs, warnings)
	if err != nil {
		return nil, shortenProblems(err)
	}
	return file, nil
}

func (c *sharesCall) read(cmd *cobra.Command, name string) (*treefile.File, error) {
	return readTree(cmd, name, c.errs)
}

const mostProblems = 50

func printWarnings(w io.Writer, warnings document.Problems) {
	for i, warning := range warnings {
		if i == mostProblems {
			fmt.Fprintf(w, "weir: and %d more warnings\n", len(warnings)-i)
			return
		}
		fmt.Fprintf(w, "weir: warning: %v\n", warning)
	}
}

// wrongFile is a file with problems, which are printed one per line.
type wrongFile struct {
	problems document.Problems
	cause    error
}

func (e *wrongFile) Error() string {
	list := e.problems
	shown := list[:min(len(list), mostProblems)]
	text := shown.Error()
	if rest := len(list) - len(shown); rest > 0 {
		text += fmt.Sprintf("\nand %d more problems", rest)
	}
	if len(list) == 1 {
		return text
	}
	return fmt.Sprintf("the file has %d problems\n%s", len(list), text)
}

func (e *wrongFile) Unwrap() error { return e.cause }

// shortenProblems counts the problems and omits most of a long list.
func shortenProblems(err error) error {
	var problems document.Problems
	if !errors.As(err, &problems) {
		return err
	}
	return &wrongFile{problems, err}
}
