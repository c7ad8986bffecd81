// Command schema holds a JSON document against a JSON Schema: schema SCHEMA DOCUMENT. It is for scripts.
package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "schema:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 2 {
		return errors.New("usage: schema SCHEMA DOCUMENT")
	}
	schema, err := jsonschema.NewCompiler().Compile(args[0])
	if err != nil {
		return err
	}
	f, err := os.Open(args[1])
	if err != nil {
		return err
	}
	defer f.Close()
	doc, err := jsonschema.UnmarshalJSON(f)
	if err != nil {
		return fmt.Errorf("read %s: %w", args[1], err)
	}
	return schema.Validate(doc)
}
