package jobproxy

import (
	"testing"
	"time"
)

func TestAnAlarmRingsWhenItsTimeHasCome(t *testing.T) {
	a, err := newAlarm()
	if err != nil {
		t.Fatal(err)
	}
	defer a.close()
	for _, wait := range []time.Duration{0, -time.Hour, time.Nanosecond, 20 * time.Millisecond} {
		at := time.Now().Add(wait)
		a.set(at)
		<-a.rings
		if early := time.Until(at); early > 0 {
			t.Errorf("an alarm for %v rang %v early", wait, early)
		}
	}
	a.set(time.Now().Add(time.Hour))
	at := time.Now().Add(10 * time.Millisecond)
	a.set(at) // the last time set counts
	<-a.rings
	if early := time.Until(at); early > 0 {
		t.Errorf("it rang %v early", early)
	}
	a.set(time.Now().Add(time.Hour))
	select {
	case <-a.rings:
		t.Error("it rang an hour early")
	case <-time.After(20 * time.Millisecond):
	}
}

func TestAnAlarmThatIsClosedIsGone(t *testing.T) {
	a, err := newAlarm()
	if err != nil {
		t.Fatal(err)
	}
	a.set(time.Now().Add(time.Hour))
	a.close()
	if err := a.file.Close(); err == nil {
		t.Error("its file was still open")
	}
}
