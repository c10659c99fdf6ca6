package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// credentials are the keys that `mete login` got, by gateway, in a file that
// this user alone can read.
type credentials struct {
	path     string
	Current  string                `json:"current"` // the gateway that was logged in to last
	Gateways map[string]credential `json:"gateways"`
}

type credential struct {
	Key     string    `json:"key"`
	Plan    string    `json:"plan,omitempty"`
	Saved   time.Time `json:"saved"`
	Expires time.Time `json:"expires,omitzero"`
}

// openCredentials reads the file; one that is not there is empty.
func openCredentials() (*credentials, error) {
	dir, err := os.UserConfigDir()
	if err != nil {
		return nil, fmt.Errorf("folder for the key: %w", err)
	}
	c := &credentials{path: filepath.Join(dir, "mete", "credentials.json"), Gateways: map[string]credential{}}
	content, err := os.ReadFile(c.path)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err != nil {
		return nil, fmt.Errorf("stored keys: %w", err)
	}
	if json.Unmarshal(content, c) != nil { // its own error could quote a key
		return nil, fmt.Errorf("stored keys: %s is broken; remove it and log in again", c.path)
	}
	if c.Gateways == nil {
		c.Gateways = map[string]credential{}
	}
	return c, nil
}

// gateway is the base URL that is meant: the given one, or the current one.
func (c *credentials) gateway(given string) (string, error) {
	if given != "" {
		return normaliseBase(given)
	}
	if c.Current == "" {
		return "", errors.New("say which gateway: --url URL")
	}
	return c.Current, nil
}

// find returns the key for a gateway, and which gateway that is.
func (c *credentials) find(given string) (base string, found credential, err error) {
	if base, err = c.gateway(given); err != nil {
		return "", credential{}, err
	}
	found, ok := c.Gateways[base]
	if !ok {
		return "", credential{}, fmt.Errorf("not logged in to %s: run mete login --url %s", base, base)
	}
	return base, found, nil
}

func (c *credentials) put(base string, made credential) error {
	c.Current, c.Gateways[base] = base, made
	return c.write()
}

// drop forgets a gateway. Another one that is known becomes the current.
func (c *credentials) drop(base string) error {
	delete(c.Gateways, base)
	if c.Current == base {
		c.Current = ""
		for _, other := range sortedNames(c.Gateways) {
			c.Current = other
			break
		}
	}
	return c.write()
}

func sortedNames[V any](m map[string]V) []string {
	var names []string
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// write replaces the file as a whole, readable by this user alone from its
// first byte on.
func (c *credentials) write() error {
	content, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return fmt.Errorf("stored keys: %w", err)
	}
	dir := filepath.Dir(c.path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("stored keys: %w", err)
	}
	temp, err := os.CreateTemp(dir, ".credentials-*") // mode 0600
	if err != nil {
		return fmt.Errorf("stored keys: %w", err)
	}
	defer func() { _ = os.Remove(temp.Name()) }()
	_, err = temp.Write(append(content, '\n'))
	if err := errors.Join(err, temp.Close()); err != nil {
		return fmt.Errorf("stored keys: %w", err)
	}
	if err := os.Rename(temp.Name(), c.path); err != nil {
		return fmt.Errorf("stored keys: %w", err)
	}
	return nil
}
