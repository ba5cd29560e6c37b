package cli

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/weirhq/weir/internal/engine/fairshare"
	"github.com/weirhq/weir/internal/engine/treefile"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/resource"
)

// barStyle is how bars and text are drawn.
type barStyle struct {
	paint func(style, string) string
	// The cells of a bar: used, entitled but not used, demanded but not entitled; the mark of the
	// fair share where usage exceeds it; and the end of a bar that does not fit.
	used, entitled, asked, mark, more string
}

var (
	asciiBars   = barStyle{plain, "#", "=", ".", "|", ">"}
	unicodeBars = barStyle{plain, "█", "▒", "░", "┃", "›"}
)

// barStyleOf uses block characters on a terminal that supports them, and plain ASCII everywhere
// else, so that files and pipes get text that grep can match.
func barStyleOf(w io.Writer) barStyle {
	style := asciiBars
	if file, ok := behindOf(w).(*os.File); ok && isTerminal(file) && isUTF8() {
		style = unicodeBars
	}
	style.paint = painter(w)
	return style
}

func isTerminal(file *os.File) bool {
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// isUTF8 reads the variables of the locale in their order of precedence.
func isUTF8() bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if value := os.Getenv(name); value != "" {
			normal := strings.ReplaceAll(strings.ToUpper(value), "-", "")
			return strings.Contains(normal, "UTF8")
		}
	}
	return false
}

const barWidth = 24

// bar draws shares of the whole cluster on one line.
func (s barStyle) bar(usage, share, demand float64) string {
	const least = 1e-6 // less is rounding; more is visible
	cell := func(v float64) int {
		if v <= least {
			return 0
		}
		return max(1, min(barWidth, int(v*barWidth+0.5)))
	}
	u, f, d := cell(usage), cell(share), cell(demand)
	over := ""
	if u > f {
		over = s.paint(styleYellow, s.mark+strings.Repeat(s.used, u-f-1))
		u = f
	}
	within := s.paint(styleGreen, strings.Repeat(s.used, u))
	entitled := s.paint(styleCyan, strings.Repeat(s.entitled, max(0, f-u)))
	length := max(f, u)
	if over != "" {
		length = visibleWidth(within + over)
	}
	asked := s.paint(styleDim, strings.Repeat(s.asked, max(0, d-length)))
	end := ""
	if demand > 1+least {
		end = s.paint(styleDim, s.more)
	}
	return within + over + entitled + asked + end
}

// legend explains the cells of bars.
func (s barStyle) legend() string {
	return fmt.Sprintf("bars: the whole cluster is %d wide; %s used, %s entitled to, %s asked for, %s fair share where more is used",
		barWidth, s.used, s.entitled, s.asked, s.mark)
}

// shareTable is the table of one tree.
type shareTable struct {
	call     *sharesCall
	file     *treefile.File
	result   *fairshare.Result
	kind     resource.Kind
	children [][]int32
	rows     [][]string
}

var shareColumns = []string{
	"pool / operation", "mode", "weight", "dominant", "usage", "demand", "fair share", "", "strong", "integral", "by weight", "",
}

// leftColumns are the columns that hold words.
var leftColumns = []int{0, 1, 3, 11}

const nothing = "-"

func (c *sharesCall) printTable(file *treefile.File, result *fairshare.Result) error {
	t := &shareTable{call: c, file: file, result: result, kind: c.kind(file)}
	if file.ID != "" {
		fmt.Fprintf(c.out, "%s\n", c.style.paint(styleBold, file.ID))
	}
	fmt.Fprintf(c.out, "cluster: %v; amounts are of %v\n\n", result.Total, t.kind)
	t.collectChildren()
	t.add(0, 0)
	if err := t.flush(); err != nil {
		return err
	}
	fmt.Fprintf(c.out, "\n%s\n", c.style.legend())
	t.notes()
	return nil
}

// collectChildren lists children in display order: that of the file, or in FIFO pools that of
// service.
func (t *shareTable) collectChildren() {
	elements := t.file.Tree.Elements
	t.children = make([][]int32, len(elements))
	for slot := 1; slot < len(elements); slot++ {
		if elements[slot].Kind == fairshare.KindNone || t.call.poolsOnly && elements[slot].Kind == fairshare.KindOperation {
			continue
		}
		parent := elements[slot].Parent
		t.children[parent] = append(t.children[parent], int32(slot))
	}
	for slot, children := range t.children {
		if pool := elements[slot].Pool; pool != nil && pool.Mode == fairshare.FIFO {
			slices.SortStableFunc(children, func(a, b int32) int {
				return int(t.result.Elements[a].FIFOIndex) - int(t.result.Elements[b].FIFOIndex)
			})
		}
	}
}

func (t *shareTable) add(slot int32, depth int) {
	t.rows = append(t.rows, t.row(slot, depth))
	for _, child := range t.children[slot] {
		t.add(child, depth+1)
	}
}

func (t *shareTable) row(slot int32, depth int) []string {
	element, outcome := &t.file.Tree.Elements[slot], &t.result.Elements[slot]
	a := t.result.Attributes(&t.file.Tree, slot)
	split := t.result.Split(slot)
	name := t.file.Names[slot]
	if element.Kind == fairshare.KindPool {
		name = t.call.style.paint(styleBold, name)
	}
	weight := nothing
	if slot != 0 {
		weight = strconv.FormatFloat(outcome.Weight, 'g', 4, 64)
	}
	dominant := nothing
	if a.Demand.Largest() > 0 {
		dominant = a.Dominant.String()
	}
	k := t.kind
	row := []string{
		strings.Repeat("  ", depth) + name, modeOf(element, outcome), weight, dominant,
		t.amount(a.Usage[k]), t.amount(a.Demand[k]), t.amount(outcome.FairShare[k]), percent(outcome.FairShare[k]),
		nothing, nothing, nothing,
		t.call.style.bar(a.Usage[k], outcome.FairShare[k], a.Demand[k]),
	}
	if element.Kind == fairshare.KindPool {
		row[8], row[9], row[10] = t.amount(split.Strong[k]), t.amount(split.Integral[k]), t.amount(split.WeightProportional[k])
	}
	return row
}

// amount is a share in the unit of its resource.
func (t *shareTable) amount(share float64) string {
	return shareAmount(t.result.Total, t.kind, share)
}

func shareAmount(total resource.Amounts, k resource.Kind, share float64) string {
	var one resource.Shares
	one[k] = share
	amount := one.Of(total)[k]
	if amount == 0 {
		return nothing
	}
	return resource.FormatAmount(k, amount)
}

func percent(share float64) string {
	return strconv.FormatFloat(share*100, 'f', 2, 64) + "%"
}

var guaranteeNames = map[fairshare.GuaranteeType]string{fairshare.Burst: "burst", fairshare.Relaxed: "relaxed"}

// modeOf describes how a pool divides its share, which integral guarantee it has, and an
// operation's position in a FIFO pool.
func modeOf(element *fairshare.Element, outcome *fairshare.ElementResult) string {
	var words []string
	if element.Kind == fairshare.KindPool {
		words = append(words, "fair_share")
		if element.Pool != nil {
			if element.Pool.Mode == fairshare.FIFO {
				words[0] = "fifo"
			}
			if name := guaranteeNames[element.Pool.Integral.Type]; name != "" {
				words = append(words, name)
			}
		}
	}
	if element.Gang {
		words = append(words, "gang")
	}
	if outcome.FIFOIndex >= 0 {
		words = append(words, "#"+strconv.Itoa(int(outcome.FIFOIndex)+1))
	}
	if len(words) == 0 {
		return nothing
	}
	return strings.Join(words, " ")
}

// flush writes the rows without the empty columns.
func (t *shareTable) flush() error {
	var keep []int
	for c := range shareColumns {
		if slices.ContainsFunc(t.rows, func(row []string) bool { return row[c] != nothing && row[c] != "" }) {
			keep = append(keep, c)
		}
	}
	pick := func(row []string) []string {
		cells := make([]string, len(keep))
		for i, c := range keep {
			cells[i] = row[c]
		}
		return cells
	}
	out := newTable(t.call.out)
	for i, c := range keep {
		if !slices.Contains(leftColumns, c) {
			out.alignRight(i)
		}
	}
	header := pick(shareColumns)
	for i := range header {
		header[i] = t.call.style.paint(styleDim, header[i])
	}
	out.row(header...)
	for _, row := range t.rows {
		out.row(pick(row)...)
	}
	return out.flush()
}

// notes writes what the table does not show.
func (t *shareTable) notes() {
	for _, alert := range t.result.Alerts {
		fmt.Fprintf(t.call.out, "%s %s\n", t.call.style.paint(styleRed, "alert:"), t.alert(alert))
	}
	for _, o := range t.file.Operations() {
		if o.Waits == "" {
			continue
		}
		text := "operation " + t.file.Names[o.Slot] + " " + o.Waits
		if windows := activityText(o.Activity); windows != "" {
			text += " (" + windows + ")"
		}
		fmt.Fprintf(t.call.out, "note: %s\n", text)
	}
}

func (t *shareTable) alert(alert fairshare.Alert) string {
	var names []string
	for _, slot := range alert.Slots {
		names = append(names, t.file.Names[slot])
	}
	text := strings.ToLower(alert.Message[:1]) + alert.Message[1:]
	if len(names) > 0 {
		const most = 10
		if len(names) > most {
			names = append(names[:most], fmt.Sprintf("and %d more", len(names)-most))
		}
		text += ": " + strings.Join(names, ", ")
	}
	if alert.Code == fairshare.AlertOvercommit {
		text += "; weir check shows which"
	}
	return text
}

func activityText(windows treefile.Activity) string {
	var parts []string
	for _, w := range windows {
		part := document.FormatDuration(w.From) + "-"
		if w.To != treefile.Forever {
			part += document.FormatDuration(w.To)
		}
		if w.Every > 0 {
			part += " every " + document.FormatDuration(w.Every)
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, ", ")
}
