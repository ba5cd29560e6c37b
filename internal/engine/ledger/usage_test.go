package ledger

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/value/resource"
)

var ann = Account{Tree: "default", Pool: "prod", User: "ann"}

func usageOf(t testing.TB, rows []TallyRow, level Level, a Account) UsageSums {
	t.Helper()
	u := NewUsage()
	var of []TallyRow
	for _, row := range rows {
		if row.Level == level {
			of = append(of, row)
		}
	}
	_, lines, err := u.Accounts.Total(of)
	if err != nil {
		t.Fatal(err)
	}
	if lines[a] == nil {
		return UsageSums{}
	}
	return *lines[a]
}

func TestUsageIsDividedByWhatGuaranteesCover(t *testing.T) {
	u := NewUsage()
	u.Spend(noon, Seat{1, "default"}, ann, amount(resource.CPU, 300))
	u.Spend(noon, Seat{2, "default"}, ann, amount(resource.CPU, 100))
	u.Cover(noon, func(string, string) (guaranteed, usage resource.Amounts) {
		return amount(resource.CPU, 200), amount(resource.CPU, 800) // others of the pool use as much
	})
	u.Spend(noon.Add(10*time.Second), Seat{2, "default"}, ann, resource.Amounts{})
	got := usageOf(t, u.Flush(noon.Add(20*time.Second)), Hour, ann)
	if got.Held[resource.CPU].Seconds() != 400*10+300*10 || got.Guaranteed[resource.CPU].Seconds() != 100*20 {
		t.Errorf("held %v, of that by guarantees %v", got.Held[resource.CPU].Seconds(), got.Guaranteed[resource.CPU].Seconds())
	}
}

func TestAnOperationThatMovesIsAccountedInItsNewPool(t *testing.T) {
	u := NewUsage()
	other := ann
	other.Pool = "batch"
	u.Spend(noon, Seat{1, "default"}, ann, amount(resource.CPU, 100))
	u.Spend(noon.Add(10*time.Second), Seat{1, "default"}, other, amount(resource.CPU, 100))
	rows := u.Flush(noon.Add(15 * time.Second))
	if a, b := usageOf(t, rows, Hour, ann), usageOf(t, rows, Hour, other); a.Held[resource.CPU].Seconds() != 1000 || b.Held[resource.CPU].Seconds() != 500 {
		t.Errorf("held %v and %v", a.Held[resource.CPU].Seconds(), b.Held[resource.CPU].Seconds())
	}
}

// What held at the last flush holds until the operations of the account are entered again, or all are known.
func TestUsageContinuesAfterAKill(t *testing.T) {
	u := NewUsage()
	bob := ann
	bob.User = "bob"
	u.Spend(noon, Seat{1, "default"}, ann, amount(resource.CPU, 100))
	u.Spend(noon, Seat{2, "default"}, bob, amount(resource.CPU, 10))
	rows := u.Flush(noon.Add(10 * time.Second))
	u = NewUsage()
	if err := u.Restore(rows, noon.Add(10*time.Second), noon.Add(30*time.Second)); err != nil {
		t.Fatal(err)
	}
	u.Spend(noon.Add(30*time.Second), Seat{1, "default"}, ann, amount(resource.CPU, 50)) // one of two jobs has ended meanwhile
	u.Settle(noon.Add(40 * time.Second))
	rows = u.Flush(noon.Add(50 * time.Second))
	if a, b := usageOf(t, rows, Hour, ann), usageOf(t, rows, Hour, bob); a.Held[resource.CPU].Seconds() != 100*30+50*20 || b.Held[resource.CPU].Seconds() != 10*40 {
		t.Errorf("held %v and %v", a.Held[resource.CPU].Seconds(), b.Held[resource.CPU].Seconds())
	}
}

func TestAClosedMonthNeverChanges(t *testing.T) {
	u := NewUsage()
	end := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	u.Spend(end.Add(-time.Hour), Seat{1, "default"}, ann, amount(resource.CPU, 100))
	var october []byte
	for _, row := range u.Flush(end.Add(time.Second)) {
		if row.Level == Month && row.Start.Month() == time.October {
			october = row.Data
		}
	}
	if october == nil {
		t.Fatal("the month is not stored")
	}
	held := amount(resource.CPU, 100)
	u.Spend(end.Add(time.Minute), Seat{1, "default"}, ann, resource.Amounts{})
	u.Job(end.Add(time.Minute), ann, Completed, &held, time.Hour, &Sizing{}) // it ran in October, too
	for _, row := range u.Flush(end.Add(40 * 24 * time.Hour)) {
		if row.Start.Before(end) && row.Level != Standing {
			t.Errorf("level %d of %v changes", row.Level, row.Start)
		}
	}
}

func TestLabels(t *testing.T) {
	values := map[string]string{"team": "search\x1fx", "long": strings.Repeat("ж", 100)}
	labels := LabelsOf([]string{"long", "none", "team"}, func(key string) (string, bool) { v, ok := values[key]; return v, ok })
	a := Account{Labels: labels}
	if a.Label("team") != "search x" || a.Label("none") != "" || len([]rune(a.Label("long"))) != longestLabel {
		t.Errorf("the labels are %q", labels)
	}
	u := NewUsage()
	for i := range mostLabels {
		u.Admit(noon, Account{Labels: fmt.Sprint("n=", i)})
	}
	if got := u.Admit(noon, Account{Labels: "n=more"}); got.Labels != OtherLabels || got.Label("n") != OtherLabels {
		t.Errorf("labels beyond the limit are %q", got.Labels)
	}
	if got := u.Admit(noon, Account{Labels: "n=7"}); got.Label("n") != "7" {
		t.Errorf("a known label is %q", got.Labels)
	}
	if got := u.Admit(noon.AddDate(0, 1, 0), Account{Labels: "n=more"}); got.Label("n") != "more" {
		t.Errorf("labels of the next month are %q", got.Labels)
	}
}

func TestWhatLearningWouldSaveIsKeptOverKills(t *testing.T) {
	u := NewUsage()
	held := amount(resource.Memory, 1000)
	u.Shadow(noon, ann, &held, time.Second, 600, false)
	u.Shadow(noon, ann, &held, time.Second, 0, true)
	rows := u.Flush(noon.Add(10 * time.Second))
	u = NewUsage()
	if err := u.Restore(rows, noon.Add(10*time.Second), noon.Add(30*time.Second)); err != nil {
		t.Fatal(err)
	}
	u.Shadow(noon.Add(time.Minute), ann, &held, time.Second, 400, false)
	rows = u.Flush(noon.Add(2 * time.Hour))
	for _, level := range []Level{Hour, Day, Month} {
		_, sums, err := u.Shadows.Total(slices.DeleteFunc(slices.Clone(rows), func(row TallyRow) bool { return row.Level != level }))
		if err != nil {
			t.Fatal(err)
		}
		got := sums[ann]
		if got == nil || got.Jobs != 3 || got.Overdrafts != 1 || got.Saved.Seconds() != 1000 || got.Lost[resource.Memory].Seconds() != 1000 {
			t.Errorf("level %d: %+v", level, got)
		}
	}
}

func TestWhatIsSavedIsLimitMinusReserveAndRequestMinusUse(t *testing.T) {
	u := NewUsage()
	held, given := amount(resource.CPU, 30), amount(resource.CPU, 100)
	given[resource.Memory] = 1 << 20
	sizing := Sizing{}
	sizing.Given.Add(&given, time.Second)
	sizing.Limit.AddAmount(3<<20, time.Second)
	u.Job(noon, ann, Completed, &held, time.Second, &sizing)
	if got := u.Saved("default"); got[resource.CPU].Seconds() != 70 || got[resource.Memory].Seconds() != 2<<20 {
		t.Errorf("saved are %v", got)
	}
	if got := u.Saved("other"); got != (AmountSums{}) {
		t.Errorf("a tree without jobs saved %v", got)
	}
}
