package forecast

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"time"
)

// mostSaved bounds the keys of a saved model, and mostSavedBytes its size when read.
const (
	mostSaved      = 5000
	mostSavedBytes = 64 << 20
)

// savedModel is a model as stored.
type savedModel struct {
	Agree  float64    `json:"agree"`
	Spread float64    `json:"spread"`
	Keys   []savedKey `json:"keys"` // the most recently used first
}

type savedKey struct {
	Key   string       `json:"key"`
	Cells [][3]float32 `json:"cells"` // bucket, ended, cut
}

// Save packs the most recently used keys. Operations that have not ended are not
// saved.
func (m *Model) Save() ([]byte, error) {
	saved := savedModel{Agree: m.agree, Spread: m.spread}
	for e := m.order.Front(); e != nil && len(saved.Keys) < mostSaved; e = e.Next() {
		entry := e.Value.(*entry)
		key := savedKey{Key: entry.key}
		for _, c := range entry.spectrum.cells {
			scale := entry.spectrum.scale
			key.Cells = append(key.Cells, [3]float32{float32(c.bucket), float32(c.ended / scale), float32(c.cut / scale)})
		}
		saved.Keys = append(saved.Keys, key)
	}
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if err := json.NewEncoder(w).Encode(saved); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// ReadModel reads what Save packed. No data are a model that knows nothing.
func ReadModel(data []byte) (*Model, error) {
	m := NewModel()
	if len(data) == 0 {
		return m, nil
	}
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("a stored model of run times: %w", err)
	}
	var saved savedModel
	if err := json.NewDecoder(io.LimitReader(r, mostSavedBytes)).Decode(&saved); err != nil {
		return nil, fmt.Errorf("a stored model of run times: %w", err)
	}
	m.agree, m.spread = saved.Agree, saved.Spread
	for _, key := range saved.Keys[:min(len(saved.Keys), mostSaved)] {
		e := &entry{key: key.Key, spectrum: spectrum{scale: 1}}
		last := int32(-1)
		for _, c := range key.Cells {
			bucket := int32(c[0])
			if bucket <= last || bucket >= bucketCount || !(c[1] >= 0 && c[2] >= 0 && c[1]+c[2] < 1e6) {
				return nil, fmt.Errorf("a stored model of run times: key %q has the bucket %v", key.Key, c)
			}
			last = bucket
			e.spectrum.cells = append(e.spectrum.cells, cell{bucket, float64(c[1]), float64(c[2])})
		}
		e.spectrum.sum()
		m.keys[key.Key] = m.order.PushBack(e)
	}
	return m, nil
}

// SavedForecast is a forecast with its outcome, as stored.
type SavedForecast struct {
	Size       string                 `json:"size"`
	Age        float64                `json:"age"` // seconds
	Raw        [MethodCount]Quantiles `json:"raw"`
	There      [MethodCount]bool      `json:"there"`
	Corrected  [MethodCount]Quantiles `json:"corrected"`
	ByPool     [MethodCount]bool      `json:"by_pool"`
	Method     Method                 `json:"method"`
	Calibrated bool                   `json:"calibrated"`
	// Outcome is in seconds from when the forecast was made, if Known.
	Known   bool    `json:"known"`
	Outcome float64 `json:"outcome"`
}

// Save returns a forecast as it is stored; a negative outcome is not known.
func (f *Forecast) Save(outcome float64) ([]byte, error) {
	return json.Marshal(SavedForecast{
		Size: f.Size, Age: f.Age.Seconds(), Raw: f.Raw.Quantiles, There: f.Raw.There, Corrected: f.Corrected, ByPool: f.byPool, Method: f.Method,
		Calibrated: f.Calibrated, Known: outcome >= 0, Outcome: max(outcome, 0),
	})
}

// ReadForecast reads what Save returned.
func ReadForecast(tree, pool string, target Target, made time.Time, data []byte) (f Forecast, outcome float64, known bool, err error) {
	var s SavedForecast
	if err := json.Unmarshal(data, &s); err != nil {
		return f, 0, false, fmt.Errorf("a stored forecast: %w", err)
	}
	if s.Method >= MethodCount || target >= TargetCount {
		return f, 0, false, fmt.Errorf("a stored forecast has the method %d and the target %d", s.Method, target)
	}
	f = Forecast{
		Place: Place{Tree: tree, Pool: pool, Size: s.Size}, Target: target, Made: made, Age: time.Duration(s.Age * float64(time.Second)),
		Raw: Raw{s.Raw, s.There}, Corrected: s.Corrected, byPool: s.ByPool, Method: s.Method, Calibrated: s.Calibrated,
	}
	return f, s.Outcome, s.Known, nil
}
