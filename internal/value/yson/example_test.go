package yson_test

import (
	"fmt"

	"github.com/weirhq/weir/internal/value/yson"
)

// Read the parameters of a request as one value.
func ExampleParse() {
	parameters, err := yson.Parse([]byte(`{path=<append=%true>"//tmp/t"; limit=10}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	path, _ := parameters.Get("path")
	text, _ := path.Text()
	_, appends := path.Attribute("append")
	fmt.Println(text, appends)

	_, err = yson.Parse([]byte("{path: x}"))
	fmt.Println(err)
	// Output:
	// //tmp/t true
	// YSON at line 1, column 6 (byte 5): after a key must come "=", not ":"; keys and values are separated by "="
}

// Build an answer and write it in the requested format.
func ExampleAppend() {
	answer := yson.Map(
		yson.Pair("weight", yson.Double(2)),
		yson.Pair("tags", yson.List(yson.String("gpu"))),
	).WithAttributes(yson.Pair("type", yson.String("scheduler_pool")))
	pretty, _ := yson.Append(nil, answer, yson.Pretty)
	json, _ := yson.AppendJSON(nil, answer, yson.JSONOptions{})
	fmt.Printf("%s\n%s\n", pretty, json)
	// Output:
	// <
	//     "type" = "scheduler_pool";
	// > {
	//     "weight" = 2.;
	//     "tags" = [
	//         "gpu";
	//     ];
	// }
	// {"$attributes":{"type":"scheduler_pool"},"$value":{"weight":2.0,"tags":["gpu"]}}
}
