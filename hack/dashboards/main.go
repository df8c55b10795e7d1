// Command dashboards writes the dashboards for Grafana.
//
//	go run ./hack/dashboards config/grafana
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: dashboards FOLDER")
		os.Exit(2)
	}
	for name, board := range map[string]board{"fleet": fleet, "cluster": cluster, "member": member, "backup": backups} {
		if err := write(filepath.Join(os.Args[1], name+".json"), board); err != nil {
			fmt.Fprintf(os.Stderr, "dashboards: %s: %v\n", name, err)
			os.Exit(1)
		}
	}
}

func write(file string, b board) error {
	built, err := b.build()
	if err != nil {
		return err
	}
	data, err := json.MarshalIndent(built, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(data, '\n'), 0o644)
}
