package jobinit

import "errors"

// Level is how far a job is kept apart from the machine and from other jobs.
type Level uint8

const (
	None        Level = iota // control groups only
	SharedFiles              // the machine's files, read-only outside the sandbox
	Full                     // a root of its own
)

var levelNames = [...]string{"none", "shared_files", "full"}

// String returns the name of the level in settings.
func (l Level) String() string {
	if int(l) < len(levelNames) {
		return levelNames[l]
	}
	return "unknown"
}

// MarshalText returns the name of the level.
func (l Level) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText reads the name of a level.
func (l *Level) UnmarshalText(text []byte) error {
	for i, name := range levelNames {
		if name == string(text) {
			*l = Level(i)
			return nil
		}
	}
	return errors.New("level of isolation " + string(text) + ": want none, shared_files or full")
}

// Where a job with a root of its own finds its directories.
const (
	SandboxPath   = "/job"
	TemporaryPath = "/tmp"
)

// Plan is what an init does.
type Plan struct {
	Level    Level
	HostName string
	// UserNamespace says that the init has its privileges in a user namespace only.
	UserNamespace bool

	Root      string // an empty directory to assemble a root on; for Full only
	Sandbox   string // the machine's paths of the job's directories
	Temporary string
	ReadOnly  []string // paths of the machine that the job sees besides; for Full only
	Writable  []string // and those that it may write to as well, as far as their permissions allow
	Hide      []string // paths that the job must not see
	Volumes   []string // where in the sandbox the mounts belong that the init was given, in their order
	// Layers, if set, are the directories of an image that the root is made of instead of the machine's programs, the
	// uppermost first, relative to LayerDir. The first one has everything that is mounted on. For Full only.
	Layers   []string
	LayerDir string
	// Upper and Work are empty directories for what the job changes in the image. Unset: the root is read-only.
	Upper, Work string
	Binds       []Bind // files and directories of the machine that the root shows read-only; for Full only
	// Devices are device files that the job has besides the harmless ones; for Full only.
	Devices []Device
	// SharedMemory is the size of /dev/shm, in bytes.
	SharedMemory int64

	ChangeUser  bool // to UID and GID, without further groups
	UID, GID    uint32
	AllowPtrace bool
	NoNetwork   bool // but the loopback device; not for None
	// OOMScore is the oom_score_adj of the command.
	OOMScore int
	Limits   []ResourceLimit

	Args      []string // the program's path, then its arguments
	Env       []string
	Dir       string
	Group     bool // the command starts in the control group of version 2 that the init was given
	Entrances int  // how many control groups the command enters, through files that the init was given

	// Enter makes no surroundings: the command joins those of a running job. Namespaces are the kinds of the
	// namespaces that it joins, as flags of clone, in the order of the files that the init was given.
	Enter      bool
	Namespaces []int
	// Runtime mounts the layers and leaves the rest to the command, an OCI runtime: it keeps the machine's files and the init's privileges.
	Runtime bool
	// Terminal makes stdin the controlling terminal of the command.
	Terminal bool
}

// Bind shows a file of the machine at a path of the root.
type Bind struct{ Source, Target string }

// Device is a device file of a job.
type Device struct {
	Name         string // below /dev
	Source       string // its path on the machine
	Major, Minor uint32
}

// ResourceLimit is a soft and hard limit of the command, by the number of setrlimit.
type ResourceLimit struct {
	Resource   int
	Soft, Hard uint64
}

// namespaces reports whether the init has namespaces of its own.
func (p *Plan) namespaces() bool { return p.Level != None }

// files is how many files the init was given besides those that every init has.
func (p *Plan) files() int { return p.Entrances + len(p.Volumes) + len(p.Namespaces) }

// coder writes a plan or reads it: one description of the format serves both directions.
type coder struct {
	data    []byte
	reading bool
	bad     bool
}

func (c *coder) number(v *uint64) {
	if !c.reading {
		n := *v
		for n >= 0x80 {
			c.data = append(c.data, byte(n)|0x80)
			n >>= 7
		}
		c.data = append(c.data, byte(n))
		return
	}
	*v = 0
	for shift := uint(0); ; shift += 7 {
		if len(c.data) == 0 || shift > 63 {
			c.bad = true
			return
		}
		b := c.data[0]
		c.data = c.data[1:]
		*v |= uint64(b&0x7f) << shift
		if b < 0x80 {
			return
		}
	}
}

func (c *coder) text(v *string) {
	length := uint64(len(*v))
	c.number(&length)
	if !c.reading {
		c.data = append(c.data, *v...)
		return
	}
	if c.bad || length > uint64(len(c.data)) {
		c.bad = true
		return
	}
	*v = string(c.data[:length])
	c.data = c.data[length:]
}

// list codes the length of a list; each codes its elements.
func list[T any](c *coder, v *[]T, each func(*T)) {
	length := uint64(len(*v))
	c.number(&length)
	if c.reading {
		if c.bad || length > uint64(len(c.data)) { // an element has at least one byte
			c.bad = true
			return
		}
		*v = make([]T, length)
	}
	for i := range *v {
		each(&(*v)[i])
	}
}

func (c *coder) flag(v *bool) {
	var n uint64
	if *v {
		n = 1
	}
	c.number(&n)
	*v = n != 0
}

// integer codes any integer type that is never negative.
func integer[T ~int | ~int64 | ~uint8 | ~uint32 | ~uint64](c *coder, v *T) {
	n := uint64(*v)
	c.number(&n)
	*v = T(n)
}

func (c *coder) plan(p *Plan) {
	integer(c, &p.Level)
	c.text(&p.HostName)
	c.flag(&p.UserNamespace)
	c.text(&p.Root)
	c.text(&p.Sandbox)
	c.text(&p.Temporary)
	for _, texts := range []*[]string{&p.ReadOnly, &p.Writable, &p.Hide, &p.Volumes, &p.Args, &p.Env, &p.Layers} {
		list(c, texts, c.text)
	}
	for _, text := range []*string{&p.LayerDir, &p.Upper, &p.Work} {
		c.text(text)
	}
	list(c, &p.Binds, func(b *Bind) {
		c.text(&b.Source)
		c.text(&b.Target)
	})
	list(c, &p.Devices, func(d *Device) {
		c.text(&d.Name)
		c.text(&d.Source)
		integer(c, &d.Major)
		integer(c, &d.Minor)
	})
	integer(c, &p.SharedMemory)
	c.flag(&p.ChangeUser)
	integer(c, &p.UID)
	integer(c, &p.GID)
	c.flag(&p.AllowPtrace)
	c.flag(&p.NoNetwork)
	integer(c, &p.OOMScore)
	list(c, &p.Limits, func(l *ResourceLimit) {
		integer(c, &l.Resource)
		integer(c, &l.Soft)
		integer(c, &l.Hard)
	})
	c.text(&p.Dir)
	c.flag(&p.Group)
	integer(c, &p.Entrances)
	c.flag(&p.Enter)
	list(c, &p.Namespaces, func(n *int) { integer(c, n) })
	c.flag(&p.Terminal)
	c.flag(&p.Runtime)
}

// encode returns a plan as the init reads it.
func (p *Plan) encode() []byte {
	c := coder{}
	c.plan(p)
	return c.data
}

// decode reads a plan.
func decode(data []byte) (*Plan, error) {
	c, p := coder{data: data, reading: true}, &Plan{}
	c.plan(p)
	if c.bad || len(c.data) > 0 {
		return nil, errors.New("the plan of the job is not complete")
	}
	return p, nil
}
