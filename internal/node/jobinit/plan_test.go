package jobinit

import (
	"reflect"
	"testing"

	"golang.org/x/sys/unix"
)

func TestAPlanReadsBack(t *testing.T) {
	plan := &Plan{
		Level: Full, HostName: "job-1", UserNamespace: true, Root: "/r", Sandbox: "/s", Temporary: "/t", ReadOnly: []string{"/opt"},
		Writable: []string{"/data", ""}, Hide: []string{"/etc/x"}, Volumes: []string{"."},
		Layers: []string{"points/1", "layers/2/fs"}, LayerDir: "/images", Upper: "/u", Work: "/w", Binds: []Bind{{"/etc/hosts", "/etc/hosts"}}, SharedMemory: 1 << 40,
		Devices: []Device{{"nvidia0", "/dev/nvidia0", 195, 1 << 19}}, ChangeUser: true,
		UID: 1_900_000_000, GID: 4_294_967_294, AllowPtrace: true, NoNetwork: true, OOMScore: 300, Limits: []ResourceLimit{{4, 0, 1<<64 - 1}},
		Args: []string{"/bin/sh", "-c", "echo \xff"}, Env: []string{"A=b\n"}, Dir: "/job", Group: true, Entrances: 6, Enter: true, Namespaces: []int{1 << 17, 1 << 29}, Terminal: true,
	}
	data := plan.encode()
	again, err := decode(data)
	if err != nil || !reflect.DeepEqual(plan, again) {
		t.Fatalf("%+v\n%+v, %v", plan, again, err)
	}
	for cut := range data {
		if _, err := decode(data[:cut]); err == nil {
			t.Errorf("%d of %d bytes are a plan", cut, len(data))
		}
	}
	if _, err := decode(append(data, 0)); err == nil {
		t.Error("a byte more is a plan")
	}
}

// judge runs a filter as the kernel does and returns its answer to a system call.
func judge(t *testing.T, filter []unix.SockFilter, arch uint32, number, argument uint32) uint32 {
	t.Helper()
	data := map[uint32]uint32{offsetNumber: number, offsetArch: arch, offsetArgument: argument, offsetSecond: argument}
	var loaded uint32
	for i := 0; i < len(filter); i++ {
		f := filter[i]
		jump := func(holds bool) {
			if holds {
				i += int(f.Jt)
			} else {
				i += int(f.Jf)
			}
		}
		switch f.Code {
		case unix.BPF_LD | unix.BPF_W | unix.BPF_ABS:
			loaded = data[f.K]
		case unix.BPF_RET | unix.BPF_K:
			return f.K
		case unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K:
			jump(loaded == f.K)
		case unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K:
			jump(loaded >= f.K)
		case unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K:
			jump(loaded&f.K != 0)
		default:
			t.Fatalf("instruction %d is unknown: %+v", i, f)
		}
	}
	t.Fatal("the filter has no end")
	return 0
}

func TestTheFilterRefusesWhatIsListedAndNothingElse(t *testing.T) {
	filter := seccompFilter(false)
	denied := map[uint32]bool{}
	for _, list := range [][]uintptr{forbidden, forbiddenHere, tracing} {
		for _, number := range list {
			denied[uint32(number)] = true
		}
	}
	for number := range uint32(600) {
		want := uint32(allow)
		switch {
		case denied[number]:
			want = refuse
		case number == unix.SYS_CLONE3:
			want = notThere
		}
		if got := judge(t, filter, nativeArch, number, 0); got != want {
			t.Errorf("call %d: %#x, want %#x", number, got, want)
		}
	}
	for _, c := range []struct{ arch, number, argument, want uint32 }{
		{nativeArch, unix.SYS_CLONE, unix.CLONE_NEWUSER | uint32(unix.SIGCHLD), refuse},
		{nativeArch, unix.SYS_CLONE, unix.CLONE_NEWTIME, refuse},
		{nativeArch, unix.SYS_CLONE, unix.CLONE_VM | unix.CLONE_THREAD | unix.CLONE_SIGHAND, allow},
		{nativeArch, unix.SYS_IOCTL, SetAttributes, refuse},
		{nativeArch, unix.SYS_IOCTL, SetFlags, refuse},
		{nativeArch, unix.SYS_IOCTL, unix.TCGETS, allow},
		{nativeArch + 1, unix.SYS_READ, 0, killProcess},
	} {
		if got := judge(t, filter, c.arch, c.number, c.argument); got != c.want {
			t.Errorf("%+v: %#x", c, got)
		}
	}
	if foreignCalls != 0 && judge(t, filter, nativeArch, foreignCalls+1, 0) != refuse {
		t.Error("calls of a foreign table are allowed")
	}
	if judge(t, seccompFilter(true), nativeArch, unix.SYS_PTRACE, 0) != allow {
		t.Error("debuggers are refused though they are allowed")
	}
}

func TestLevelsHaveNames(t *testing.T) {
	for _, level := range []Level{None, SharedFiles, Full} {
		text, _ := level.MarshalText()
		var again Level
		if err := again.UnmarshalText(text); err != nil || again != level {
			t.Errorf("%s: %v, %v", text, again, err)
		}
	}
	if err := new(Level).UnmarshalText([]byte("half")); err == nil {
		t.Error("half is a level")
	}
}
