package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	yaml "github.com/goccy/go-yaml"
)

const (
	maxFile   = 16 * MiB
	maxSecret = 64 * KiB
)

// Load reads and checks the file at path. The error is Faults when the file
// could be read.
func Load(path string) (*Config, error) {
	c, _, err := LoadFiles(path)
	return c, err
}

// LoadFiles is Load, and returns the paths of all files that were read: path
// itself and those that it names, whether or not they could be.
func LoadFiles(path string) (c *Config, files []string, err error) {
	files = []string{path}
	data, err := readBounded(path, maxFile)
	if err != nil {
		return nil, files, fmt.Errorf("config %s: %w", path, err)
	}
	d := newDocument(path)
	read := d.read
	d.read = func(path string) ([]byte, error) {
		files = append(files, path)
		return read(path)
	}
	c, err = parse(d, data)
	return c, files, err
}

// Parse checks the content of a config file; name is what faults call it, and
// relative paths start at its folder. The error is always Faults, never empty.
func Parse(name string, data []byte) (*Config, error) {
	return parse(newDocument(name), data)
}

func newDocument(name string) *document {
	return &document{
		name:   name,
		places: map[string]place{},
		env:    os.LookupEnv,
		read:   func(path string) ([]byte, error) { return readBounded(path, maxSecret) },
	}
}

func parse(d *document, data []byte) (*Config, error) {
	c := Default()
	if root := d.root(data); root != nil {
		d.value("", root, reflect.ValueOf(c).Elem())
		d.readFiles(c)
		d.check(c)
		fillDerived(c)
	}
	if len(d.faults) > 0 {
		d.faults.sort()
		return nil, d.faults
	}
	return c, nil
}

// root returns the top of the YAML, or nil after it has noted why there is
// none.
func (d *document) root(data []byte) ast.Node {
	file, err := parser.ParseBytes(data, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		d.syntax(err)
		return nil
	}
	if len(file.Docs) > 1 {
		d.note(position{1, 1}, "", "holds %d YAML documents: keep one, and remove the lines ---", len(file.Docs))
		return nil
	}
	if len(file.Docs) == 0 || file.Docs[0].Body == nil {
		d.note(position{1, 1}, "", "is empty: name at least one model and one pool")
		return nil
	}
	return file.Docs[0].Body
}

// syntax notes an error of the YAML parser without the lines of the file that
// its own text quotes: they may hold secrets.
func (d *document) syntax(err error) {
	var syntax yaml.Error
	if !errors.As(err, &syntax) || syntax.GetToken() == nil {
		d.note(position{1, 1}, "", "is not YAML")
		return
	}
	d.note(tokenPosition(syntax.GetToken()), "", "is not YAML: %s", syntax.GetMessage())
}

// resolve returns the path as seen from the folder of the config file.
func (d *document) resolve(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(filepath.Dir(d.name), path)
}

func readBounded(path string, limit Size) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, reason(err)
	}
	defer func() { _ = file.Close() }()
	data, err := io.ReadAll(io.LimitReader(file, int64(limit)+1))
	if err != nil {
		return nil, reason(err)
	}
	if int64(len(data)) > int64(limit) {
		return nil, fmt.Errorf("is larger than %v", limit)
	}
	return data, nil
}

// reason drops the path from an error of the file system.
func reason(err error) error {
	var path *os.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}
