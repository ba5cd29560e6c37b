// Package document is the neutral form of all input from people and programs:
// pool trees, operation specifications, scenarios, configuration files,
// arguments of API commands.
//
// It owns three things:
//
//   - [Value]: a tree of scalars, lists and ordered maps with the line and column
//     of each value. Package notation reads YAML and JSON into Values.
//   - [Problems]: all errors of a document, each with its place, a stable rule
//     and a sentence.
//   - [Table]: the options of a Go struct as data. One table reads a map
//     strictly, writes it back, compares two structs, fills in defaults and
//     lists the options for documentation.
//
// A reader of a configuration struct looks like this:
//
//	type Config struct {
//		Weight  document.Optional[float64]
//		Timeout time.Duration
//	}
//
//	var options = document.NewTable(
//		document.Maybe("weight", "Proportion among siblings.",
//			func(c *Config) *document.Optional[float64] { return &c.Weight },
//			document.AtLeast(document.Numbers, 0).Default(1)).Alias("share"),
//		document.Plain("timeout", "How long to wait.",
//			func(c *Config) *time.Duration { return &c.Timeout }, document.Durations),
//	)
//
//	value, err := notation.Parse("weir.yaml", data)
//	…
//	reader := document.NewReader("weir.yaml")
//	options.Read(reader, value, &config)
//	return reader.Problems().Err()
//
// The package knows nothing about pools or operations, imports jsontext only,
// and never panics on a document. Tables are code: NewTable panics if two options
// have the same name.
package document
