package resource

import (
	"math"
	"strconv"
	"strings"
)

// FormatAmount writes v storage units of kind k for people: "1.5", "64 GiB",
// "unlimited". Memory is in the largest binary unit that does not exceed it,
// rounded to at most two decimals. Use FormatExact for text that will be read
// back.
func FormatAmount(k Kind, v int64) string {
	if k == Memory {
		return formatSigned(k, v, roundedBytes)
	}
	return formatSigned(k, v, nil)
}

// FormatExact writes v so that ParseLimit returns it again (for v >= 0):
// "64GiB", "1.5", "1073741825". Memory has a unit only if at most two decimals
// are enough. The text has no spaces.
func FormatExact(k Kind, v int64) string {
	if k == Memory {
		return formatSigned(k, v, exactBytes)
	}
	return formatSigned(k, v, nil)
}

func formatSigned(k Kind, v int64, bytes func(uint64) string) string {
	if v >= Unlimited {
		return "unlimited"
	}
	sign, magnitude := "", uint64(v)
	if v < 0 {
		sign, magnitude = "-", -magnitude
	}
	if v <= -Unlimited {
		return "-unlimited"
	}
	if bytes != nil {
		return sign + bytes(magnitude)
	}
	return sign + formatScaled(magnitude, uint64(k.Scale()))
}

// formatScaled writes v/scale as a decimal without trailing zeros; scale is 1
// or 100.
func formatScaled(v, scale uint64) string {
	whole := strconv.FormatUint(v/scale, 10)
	rest := v % scale
	switch {
	case rest == 0:
		return whole
	case rest%10 == 0:
		return whole + "." + strconv.FormatUint(rest/10, 10)
	case rest < 10:
		return whole + ".0" + strconv.FormatUint(rest, 10)
	}
	return whole + "." + strconv.FormatUint(rest, 10)
}

func roundedBytes(v uint64) string {
	for i := len(memoryUnits) - 1; i >= 0; i-- {
		u := uint64(memoryUnits[i].binary)
		if v < u {
			continue
		}
		hundredths := uint64(math.Round(float64(v) / float64(u) * 100))
		if hundredths == 1024*100 && i+1 < len(memoryUnits) {
			hundredths, i = 100, i+1
		}
		return formatScaled(hundredths, 100) + " " + binaryUnitName(i)
	}
	return strconv.FormatUint(v, 10) + " B"
}

func exactBytes(v uint64) string {
	for i := len(memoryUnits) - 1; i >= 0; i-- {
		u := uint64(memoryUnits[i].binary)
		// Of the fractions with two decimals only the quarters are whole
		// numbers of bytes in every unit.
		if v >= u && v%(u/4) == 0 {
			return formatScaled(v/(u/4)*25, 100) + binaryUnitName(i)
		}
	}
	return strconv.FormatUint(v, 10)
}

func binaryUnitName(i int) string {
	return strings.ToUpper(string(memoryUnits[i].letter)) + "iB"
}

// String lists the nonzero components in the order of kinds: "cpu=100,
// memory=64GiB". A vector of zeros is "nothing".
func (a Amounts) String() string {
	var b strings.Builder
	for _, k := range Kinds {
		if a[k] != 0 {
			appendComponent(&b, k, a[k])
		}
	}
	if b.Len() == 0 {
		return "nothing"
	}
	return b.String()
}

// String lists the present components, zeros included: "cpu=100, gpu=0". A
// vector without components is "unset".
func (p Partial) String() string {
	var b strings.Builder
	for _, k := range Kinds {
		if v, ok := p.Get(k); ok {
			appendComponent(&b, k, v)
		}
	}
	if b.Len() == 0 {
		return "unset"
	}
	return b.String()
}

func appendComponent(b *strings.Builder, k Kind, v int64) {
	if b.Len() > 0 {
		b.WriteString(", ")
	}
	b.WriteString(k.String())
	b.WriteByte('=')
	b.WriteString(FormatExact(k, v))
}

// volumeUnits are the units of volumes.
var volumeUnits = [KindCount]string{"slot·s", "core·s", "gpu·s", "B·s", "net·s"}

// FormatVolume writes component k of a volume with three or four significant
// digits: "86.4M core·s", "1.5 GiB·s". Memory has binary prefixes, the rest
// decimal ones.
func FormatVolume(k Kind, v float64) string {
	unit := "?·s"
	if k < KindCount {
		unit = volumeUnits[k]
	}
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return strconv.FormatFloat(v, 'g', -1, 64) + " " + unit
	}
	if k == Memory {
		number, prefix := reduce(v, 1024)
		if prefix != "" {
			prefix += "i"
		}
		return number + " " + prefix + unit
	}
	number, prefix := reduce(v, 1000)
	if prefix == "K" {
		prefix = "k"
	}
	return number + prefix + " " + unit
}

// reduce divides v by base until it is below base and returns the number with
// at most four digits, and the prefix.
func reduce(v, base float64) (number, prefix string) {
	prefixes := [...]string{"", "K", "M", "G", "T", "P", "E", "Z", "Y"}
	i := 0
	for ; i < len(prefixes)-1 && math.Abs(roundDigits(v)) >= base; i++ {
		v /= base
	}
	return strconv.FormatFloat(roundDigits(v), 'f', -1, 64), prefixes[i]
}

// roundDigits keeps two decimals below 10, one below 1000 and none above.
func roundDigits(v float64) float64 {
	switch m := math.Abs(v); {
	case m < 10:
		return math.Round(v*100) / 100
	case m < 1000:
		return math.Round(v*10) / 10
	}
	return math.Round(v)
}

// String lists the nonzero components in the order of kinds. A volume of zeros
// is "nothing".
func (v Volume) String() string {
	var parts []string
	for _, k := range Kinds {
		if v[k] != 0 {
			parts = append(parts, FormatVolume(k, v[k]))
		}
	}
	if len(parts) == 0 {
		return "nothing"
	}
	return strings.Join(parts, ", ")
}
