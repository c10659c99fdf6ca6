package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"mete/bench/report"
)

// reportFlags are the flags of `mete bench report`.
type reportFlags struct{ html, svg, png string }

func benchReportCommand() *cobra.Command {
	f := &reportFlags{}
	cmd := &cobra.Command{
		Use:   "report A.json [B.json ...]",
		Short: "Compare results and draw them",
		Long: `Compares results of mete bench or vllm bench serve. Runs with the same label are
repetitions of each other: their median is compared, and their range shown.`,
		Example: "  mete bench report a.json b.json\n  mete bench report runs/*.json --html compare.html --png plots",
		Args:    cobra.MinimumNArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	cmd.Flags().StringVar(&f.html, "html", "", "write a self-contained page to `FILE`")
	cmd.Flags().StringVar(&f.svg, "svg", "", "write plots into `FOLDER` as SVG")
	cmd.Flags().StringVar(&f.png, "png", "", "write plots into `FOLDER` as PNG")
	return cmd
}

func (f *reportFlags) run(cmd *cobra.Command, paths []string) error {
	groups, err := report.Read(paths)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprint(cmd.OutOrStdout(), report.Table(groups)); err != nil {
		return err
	}
	files := map[string][]byte{}
	if f.html != "" {
		files[f.html] = report.Page(groups)
	}
	for _, named := range report.Pictures(groups) {
		if f.svg != "" {
			files[filepath.Join(f.svg, named.Name+".svg")] = []byte(named.Picture.SVG())
		}
		if f.png != "" {
			var b bytes.Buffer
			err = errors.Join(err, named.Picture.PNG(&b))
			files[filepath.Join(f.png, named.Name+".png")] = b.Bytes()
		}
	}
	for path, content := range files {
		err = errors.Join(err, writeFile(path, content))
	}
	return err
}

// writeFile writes a result, in a folder that is made if it is not there.
func writeFile(path string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, content, 0o644) //nolint:gosec // results are for everybody to read
}
