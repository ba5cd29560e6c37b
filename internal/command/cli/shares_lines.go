package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/weirhq/weir/internal/engine/fairshare"
	"github.com/weirhq/weir/internal/engine/treefile"
)

// runLines answers a file with one tree per line. A bad line does not stop the others.
func (c *sharesCall) runLines(cmd *cobra.Command, name string) error {
	input, label, closeInput, err := openInput(cmd, name)
	if err != nil {
		return err
	}
	defer closeInput()
	lines := bufio.NewReaderSize(io.LimitReader(input, mostInput), 1<<20)
	var tally lineTally
	for number := 1; ; number++ {
		if err := cmd.Context().Err(); err != nil {
			return err
		}
		line, err := lines.ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("%s: %w", label, err)
		}
		last := err != nil
		if line = bytes.TrimSpace(line); len(line) > 0 {
			if err := c.line(fmt.Sprintf("%s#%d", label, number), line, &tally); err != nil {
				return err
			}
		}
		if last {
			break
		}
	}
	return c.finishLines(label, &tally)
}

// lineTally counts the results of a file of lines.
type lineTally struct {
	trees, bad int
	difference treefile.Difference
}

// line answers one tree. It returns only write errors.
func (c *sharesCall) line(label string, line []byte, tally *lineTally) error {
	tally.trees++
	tree, stored := splitPair(line)
	file, warnings, err := treefile.Read(label, tree)
	printWarnings(c.errs, warnings)
	var result *fairshare.Result
	if err == nil {
		result = c.compute(file)
	}
	if c.compare {
		c.compareLine(label, file, result, err, stored, tally)
		return nil
	}
	if err != nil {
		return c.badLine(err, tally)
	}
	if tally.trees > 1 {
		c.separate()
	}
	return c.print(file, result)
}

// splitPair returns the input and the stored output of a pair; a line without an input is itself a
// tree.
func splitPair(line []byte) (tree, stored []byte) {
	var pair struct{ Input, Output json.RawMessage }
	if err := json.Unmarshal(line, &pair); err != nil || pair.Input == nil {
		return line, nil
	}
	return pair.Input, pair.Output
}

func (c *sharesCall) separate() {
	switch c.opts.output {
	case outputTable:
		fmt.Fprintln(c.out)
	case outputYAML:
		fmt.Fprintln(c.out, "---")
	}
}

func (c *sharesCall) badLine(err error, tally *lineTally) error {
	tally.bad++
	err = shortenProblems(err)
	if c.opts.output == outputTable {
		fmt.Fprintf(c.errs, "weir: %v\n", err)
		return nil
	}
	var bad *treefile.BadInput
	id := ""
	if errors.As(err, &bad) {
		id = bad.ID
	}
	answer := treefile.AppendBadInput(nil, id, err)
	if c.opts.output == outputYAML {
		if tally.trees > 1 {
			c.separate()
		}
		return writeYAML(c.out, rawJSON(answer))
	}
	_, err = c.out.Write(append(answer, '\n'))
	return err
}

func (c *sharesCall) compareLine(label string, file *treefile.File, result *fairshare.Result, err error, stored []byte, tally *lineTally) {
	fail := func(format string, args ...any) {
		tally.bad++
		fmt.Fprintf(c.errs, "weir: %s: %s\n", label, fmt.Sprintf(format, args...))
	}
	if stored == nil {
		fail("there is no stored output to compare with")
		return
	}
	want, wrong := treefile.ReadAnswer(stored)
	if wrong != nil {
		fail("stored output: %v", wrong)
		return
	}
	if err != nil && want.OK {
		tally.bad++
		fmt.Fprintf(c.errs, "weir: %v\n", shortenProblems(err)) // it names the line
		return
	}
	var ours []byte
	if err != nil {
		ours = treefile.AppendBadInput(nil, want.ID, err)
	} else {
		ours = treefile.AppendAnswer(nil, file, result)
	}
	// Compare the text that would be printed, read back.
	got, wrong := treefile.ReadAnswer(ours)
	if wrong != nil {
		fail("our output: %v", wrong)
		return
	}
	tally.difference.Add(got, want)
}

// finishLines sums up. The call fails if any tree is bad or differs.
func (c *sharesCall) finishLines(label string, tally *lineTally) error {
	if !c.compare {
		if tally.bad > 0 {
			return fmt.Errorf("%s: %d of %d trees could not be read", label, tally.bad, tally.trees)
		}
		return nil
	}
	d := &tally.difference
	for i, mismatch := range d.Mismatches {
		if i == mostProblems {
			fmt.Fprintf(c.out, "and %d more\n", len(d.Mismatches)-i)
			break
		}
		fmt.Fprintln(c.out, mismatch)
	}
	verdict, agrees := "agree", d.Agrees() && tally.bad == 0
	if !agrees {
		verdict = "do not agree"
	}
	fmt.Fprintf(c.out, "%s: %d trees %s with their stored answers; largest difference: shares %.3g%s, volumes %.3g relative%s\n",
		label, tally.trees, verdict, d.Share, where(d.ShareWhere), d.Volume, where(d.VolumeWhere))
	if !agrees {
		return errReported
	}
	return nil
}

func where(path string) string {
	if path == "" {
		return ""
	}
	return " (" + path + ")"
}
