package proxy

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestErrorCodesAreDocumented holds the README's list against the codes in the
// source, both ways.
func TestErrorCodesAreDocumented(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]bool{}
	for _, row := range regexp.MustCompile(`(?m)^\| [45]\d\d.*$`).FindAllString(string(readme), -1) {
		for _, code := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(strings.Split(row, "|")[2], -1) {
			documented[code[1]] = true
		}
	}
	used := usedCodes(t)
	for code := range used {
		if !documented[code] {
			t.Errorf("%s is not in the README", code)
		}
	}
	for code := range documented {
		if !used[code] {
			t.Errorf("the README has %s, the source has not", code)
		}
	}
}

// usedCodes are the error codes in the source.
func usedCodes(t *testing.T) map[string]bool {
	t.Helper()
	used := map[string]bool{}
	files, _ := filepath.Glob("*.go")
	more, _ := filepath.Glob("body/*.go")
	pattern := regexp.MustCompile(`(?:code: |callerRefusal\(\d+, |Code\w+ += )"([a-z_]+)"`)
	for _, file := range append(files, more...) {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, code := range pattern.FindAllStringSubmatch(string(source), -1) {
			used[code[1]] = true
		}
	}
	return used
}
