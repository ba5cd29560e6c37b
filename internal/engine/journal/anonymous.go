package journal

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/imprint"
	"github.com/weirhq/weir/internal/value/nodefilter"
)

// Class is a kind of names. Names of one class are numbered together.
type Class uint8

const (
	// Names are those of pools and of users: the pool of a user has the user's name.
	Names Class = iota
	Nodes
	Tags
	Trees
	Tasks
	Presets
	Operations
	statistics
	kept    // words that options may have
	dropped // left out
	classCount
)

var classNames = [...]string{"name", "node", "tag", "tree", "task", "preset", "operation", "statistic"}

// String returns the word that anonymous names of the class start with.
func (c Class) String() string { return classNames[c] }

// places are the classes of all strings in inputs and cores, by the fields that
// contain them. A test fails for a field that is missing here.
var places = map[string]Class{
	"core.AbortInput.Message":        dropped,
	"core.Core.userPools":            Names,
	"core.Core.userPools{key}":       Names,
	"core.DefaultPoolsInput.Pools":   Names,
	"core.LiftInput.Pool":            Names,
	"core.NodeInput.Name":            Nodes,
	"core.NodeInput.Tags":            Tags,
	"core.Place.Pool":                Names,
	"core.Place.Tree":                Trees,
	"core.PoolState.Pool":            Names,
	"core.PoolState.Tree":            Trees,
	"core.Revived.User":              Names,
	"core.StartInput.User":           Names,
	"core.TreesInput.Default":        Trees,
	"core.TreesInput.Trees{name}":    Trees,
	"core.VolumeInput.Pool":          Names,
	"core.node.name":                 Nodes,
	"core.node.tags":                 Tags,
	"core.place.pool":                Names,
	"core.pool.name":                 Names,
	"core.pool.user":                 Names,
	"core.running.user":              Names,
	"core.tree.name":                 Trees,
	"core.tree.pools{key}":           Names,
	"fairshare.Alert.Message":        dropped,
	"operation.Artifacts.On":         kept,
	"operation.Artifacts.Paths":      dropped,
	"operation.Attribute.Name":       dropped,
	"operation.Attribute.Value":      dropped,
	"operation.Controller.banned":    Nodes,
	"operation.Error.Message":        dropped,
	"operation.Failure.Node":         Nodes,
	"operation.Snapshot.BannedNodes": Nodes,
	"operation.Spec.ACOName":         dropped,
	"operation.Spec.Alias":           dropped,
	"operation.Spec.Notify":          dropped,
	"operation.Spec.Owners":          dropped,
	"core.ClassifyInput.Task":        Tasks,
	"core.WithdrawInput.Task":        Tasks,
	"operation.Offered.Task":         Tasks,
	"operation.Spec.Tasks{name}":     Tasks,
	"operation.Spec.Title":           dropped,
	"operation.Statistic.Path":       statistics,
	"operation.StatisticRow.Path":    statistics,

	"operation.StatisticSnapshot.Path":            statistics,
	"operation.Task.Command":                      dropped,
	"operation.Task.DockerImage":                  dropped,
	"operation.Task.Environment":                  dropped,
	"operation.Task.Environment{name}":            dropped,
	"operation.Task.GPUCheck":                     dropped,
	"operation.Task.GPUCheckArgs":                 dropped,
	"operation.Task.InterruptionSignal":           kept,
	"operation.Task.Network":                      kept,
	"operation.Task.tmpfsPath":                    dropped,
	"operation.TaskSnapshot.Name":                 Tasks,
	"operation.TmpfsVolume.Path":                  dropped,
	"operation.Update.ACOName":                    dropped,
	"core.DefaultPoolsInput.Pools{key}":           Names,
	"pooltree.OperationOptions.PerTree{name}":     Trees,
	"pooltree.OperationOptions.PoolTrees":         Trees,
	"pooltree.Pool.name":                          Names,
	"pooltree.PoolConfig.Presets":                 Presets,
	"pooltree.PoolKubernetes.Namespaces":          dropped,
	"pooltree.PoolConfig.Spelling":                kept,
	"pooltree.PoolConfig.Spelling{key}":           kept,
	"pooltree.SchedulingOptions.Pool":             Names,
	"pooltree.Tree.byName{key}":                   Names,
	"pooltree.TreeConfig.DefaultParentPool":       Names,
	"pooltree.TreeConfig.PoolConfigPresets{name}": Presets,
	"pooltree.TreeConfig.Spelling":                kept,
	"pooltree.TreeConfig.Spelling{key}":           kept,
	"scheduling.node.tags":                        Tags,
	"scheduling.poolState.name":                   Names,
}

// Map has the anonymous names of original ones.
type Map struct {
	names  [classCount]map[string]string
	sorted [classCount][]string
}

// Entry is a line of a map.
type Entry struct {
	Class               Class
	Anonymous, Original string
}

// Entries lists the map, by class and name.
func (m *Map) Entries() (list []Entry) {
	for class := range kept {
		for _, original := range m.sorted[class] {
			list = append(list, Entry{class, m.names[class][original], original})
		}
	}
	return list
}

// note adds a name.
func (m *Map) note(class Class, name string) {
	if class == Names {
		if hub, user, is := strings.Cut(name, "$"); is {
			m.note(Names, hub)
			m.note(Names, user)
			return
		}
	}
	if stays(class, name) {
		return
	}
	if m.names[class] == nil {
		m.names[class] = map[string]string{}
	}
	if _, known := m.names[class][name]; !known {
		m.names[class][name] = ""
		m.sorted[class] = append(m.sorted[class], name)
	}
}

// stays reports whether a name stays as it is.
func stays(class Class, name string) bool {
	return class >= kept || name == "" || class == Names && name == core.RootName || class == statistics && !strings.HasPrefix(name, "custom")
}

// number numbers the names of every class in their order, because ties may end at
// names: decisions stay the same.
func (m *Map) number() {
	for class := range kept {
		if class != Operations {
			slices.Sort(m.sorted[class])
		}
		width := max(len(fmt.Sprint(len(m.sorted[class]))), 4)
		for i, name := range m.sorted[class] {
			prefix := class.String()
			if class == statistics {
				prefix = "custom/" + prefix
			}
			m.names[class][name] = fmt.Sprintf("%s-%0*d", prefix, width, i+1)
		}
	}
}

// of returns the anonymous name.
func (m *Map) of(class Class, name string) string {
	if class == Names {
		if hub, user, is := strings.Cut(name, "$"); is {
			return m.of(Names, hub) + "$" + m.of(Names, user)
		}
	}
	switch {
	case class == dropped:
		return ""
	case stays(class, name):
		return name
	}
	return m.names[class][name]
}

// rewriter returns what visits all names. text returns the new name.
func rewriter(text func(Class, string) string, problem *error) *imprint.Rewriter {
	return &imprint.Rewriter{
		Text: func(place, s string) string {
			class, known := places[place]
			if !known {
				*problem = errors.Join(*problem, fmt.Errorf("%s is in no class of names", place))
				return ""
			}
			return text(class, s)
		},
		Transparent: func(t reflect.Type) bool {
			return t.PkgPath() == reflect.TypeFor[document.Value]().PkgPath() && (strings.HasPrefix(t.Name(), "Optional[") || strings.HasPrefix(t.Name(), "Named["))
		},
		Whole: func(_ string, pointer any) bool {
			switch v := pointer.(type) {
			case *nodefilter.Filter:
				renamed, err := v.WithTags(func(tag string) string { return text(Tags, tag) })
				if err != nil {
					*problem = errors.Join(*problem, err)
				}
				*v = renamed
			case *document.Value: // annotations, lists of rights: nothing decides by them
				*v = document.Value{}
			case *document.Extras:
				*v = nil
			default:
				return false
			}
			return true
		},
	}
}

// Anonymise writes a journal without names: names of pools, users, nodes, tags, trees,
// tasks and operations are numbered in their order, and commands, environments,
// annotations, titles and texts of errors are left out. The new journal leads to the
// same decisions: Anonymise replays both side by side and refuses to write one that
// does not. open opens the journal; it is called three times.
func Anonymise(types *Types, open func() (io.ReadCloser, error), write func([]byte) error) (*Map, error) {
	m := &Map{}
	if err := m.collect(open); err != nil {
		return nil, err
	}
	m.number()
	original, err := open()
	if err != nil {
		return nil, err
	}
	defer original.Close()
	again, err := open()
	if err != nil {
		return nil, err
	}
	defer again.Close()
	a := anonymiser{names: m, player: NewPlayer(original), decoder: NewDecoder(again), types: types, framer: NewFramer(types), write: write}
	a.rewriter = rewriter(m.of, &a.problem)
	return m, a.run()
}

// collect notes the names of a journal.
func (m *Map) collect(open func() (io.ReadCloser, error)) error {
	file, err := open()
	if err != nil {
		return err
	}
	defer file.Close()
	var problem error
	r := rewriter(func(class Class, name string) string { m.note(class, name); return name }, &problem)
	d := NewDecoder(file)
	for {
		e, err := d.Next()
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, ErrCut):
			return problem
		case err != nil:
			return err
		case e.Segment != nil:
			r.Forget()
			if e.Checkpoint != nil {
				c, err := core.Load(e.Checkpoint)
				if err != nil {
					return err
				}
				r.Rewrite(c)
			}
		case e.Name != nil:
			m.note(Operations, e.Name.ID)
		case e.Gates != nil:
			e.Gates.rename(func(class Class, name string) string { m.note(class, name); return name })
		case e.Input != nil:
			r.Rewrite(e.Input)
		}
		if problem != nil {
			return problem
		}
	}
}

// anonymiser rewrites a journal.
type anonymiser struct {
	names    *Map
	player   *Player // of the original
	decoder  *Decoder
	rewriter *imprint.Rewriter
	problem  error
	types    *Types
	framer   *Framer
	encoder  *Encoder
	core     *core.Core // without names
	records  []byte
	write    func([]byte) error
	inputs   int
}

func (a *anonymiser) run() error {
	for {
		e, err := a.decoder.Next()
		if errors.Is(err, io.EOF) || errors.Is(err, ErrCut) {
			return cmp.Or(a.flush(), a.problem)
		}
		if err != nil {
			return err
		}
		if _, err := a.player.Step(); err != nil {
			return err
		}
		if err := cmp.Or(a.event(&e), a.problem); err != nil {
			return err
		}
		if len(a.records) >= FrameSize || e.End != EndCut {
			if err := a.flush(); err != nil {
				return err
			}
		}
	}
}

func (a *anonymiser) flush() error {
	if len(a.records) == 0 {
		return nil
	}
	frame := a.framer.AppendRecords(nil, a.records)
	a.records = a.records[:0]
	return a.write(frame)
}

func (a *anonymiser) event(e *Event) error {
	switch {
	case e.Segment != nil:
		return a.begin(e)
	case e.Input != nil:
		a.inputs++
		a.rewriter.Rewrite(e.Input)
		var out core.Decisions
		err := a.core.Apply(e.Time, e.Input, &out)
		got := Mark{}.Since(&out)
		if (err != nil) != e.Refused || got != e.Outcome {
			return fmt.Errorf("without names the core decides differently at %v, input %d (%T): %v, not %v", e.Time, a.inputs, e.Input, got, e.Outcome)
		}
		a.records = a.encoder.Input(a.records, e.Time, e.Input, e.Refused, got)
	case e.Name != nil:
		a.records = a.encoder.Name(a.records, e.Time, Name{Operation: e.Name.Operation, ID: a.names.of(Operations, e.Name.ID)})
	case e.Gates != nil:
		a.records = a.encoder.Gates(a.records, e.Time, e.Gates.rename(a.names.of))
	case e.Hash != nil:
		sum, err := a.core.Hash()
		if err != nil {
			return err
		}
		a.records = a.encoder.Hash(a.records, e.Time, sum)
	default:
		a.records = a.encoder.End(a.records, e.Time, e.End)
	}
	return nil
}

// begin starts a segment. Its core is that of the segment before, if it continues.
func (a *anonymiser) begin(e *Event) error {
	if err := a.flush(); err != nil {
		return err
	}
	a.rewriter.Forget()
	switch {
	case e.Checkpoint == nil:
		a.core = core.New(core.DefaultSettings())
	case a.core == nil || !a.player.kept:
		loaded, err := core.Load(e.Checkpoint)
		if err != nil {
			return err
		}
		a.rewriter.Rewrite(loaded)
		a.core = loaded
	}
	h := *e.Segment
	h.Anonymous = true
	var checkpoint []byte
	if e.Checkpoint != nil {
		sum, err := a.core.Hash()
		if err == nil {
			h.Hash = sum
			checkpoint, err = a.core.Save()
		}
		if err != nil {
			return err
		}
	}
	a.encoder = NewEncoder(a.types, h.Start)
	return a.write(a.framer.AppendStart(nil, &h, checkpoint))
}
