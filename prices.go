package main

import (
	"fmt"
	"io"

	"sigs.k8s.io/yaml"

	"github.com/alx-ke/nairobi-mysql-operator/internal/prices"
)

// commandPrices is the subcommand that makes a list of prices of the file that AWS publishes.
const commandPrices = "prices"

// runPrices reads AWS's file and prints the list. It returns the exit code.
func runPrices(arguments []string, in io.Reader, out, problems io.Writer) int {
	if len(arguments) > 0 {
		fmt.Fprintln(problems, "usage: manager prices < index.csv > prices.yaml (docs/aws.md)")
		return exitUsage
	}
	list, err := prices.ReadOffer(in)
	if err == nil {
		var text []byte
		if text, err = yaml.Marshal(list); err == nil {
			_, err = out.Write(text)
		}
	}
	if err != nil {
		fmt.Fprintln(problems, err)
		return exitFailed
	}
	return exitWell
}
