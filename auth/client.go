package auth

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// clientAgent lets the key API record which keys the command line made.
const clientAgent = "mete-keys"

// Client calls the key API of a running gateway. Its errors are written for
// the person at the command line and hold neither token nor key.
type Client struct {
	base  string
	token string
	http  *http.Client
}

// NewClient returns a client of the admin listener at base, such as
// "http://127.0.0.1:9090". Close gives its connections back.
func NewClient(base, token string) (*Client, error) {
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, errors.New("the admin address must be a URL such as http://127.0.0.1:9090")
	}
	transport := &http.Transport{
		DialContext:           (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
		ResponseHeaderTimeout: 30 * time.Second,
	}
	return &Client{base: strings.TrimRight(base, "/"), token: token, http: &http.Client{
		Transport: transport,
		// A redirect would carry the token to somewhere else.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Create makes a key. Owner may be empty for the name, expiresIn for for ever.
func (c *Client) Create(ctx context.Context, name, owner, plan, expiresIn string) (Issued, error) {
	return c.issue(ctx, "/admin/keys", map[string]string{
		"name": name, "owner": owner, "plan": plan, "expires_in": expiresIn,
	})
}

// Rotate makes the key that follows the one with this id.
func (c *Client) Rotate(ctx context.Context, id, overlap string) (Issued, error) {
	return c.issue(ctx, "/admin/keys/"+url.PathEscape(id)+"/rotate", map[string]string{"overlap": overlap})
}

// Revoke stops a key.
func (c *Client) Revoke(ctx context.Context, id string) (Key, error) {
	var key Key
	body, err := c.call(ctx, http.MethodDelete, "/admin/keys/"+url.PathEscape(id), nil)
	if err != nil {
		return key, err
	}
	defer func() { _ = body.Close() }()
	return key, c.decoded(json.NewDecoder(body).Decode(&key))
}

// Keys yields the records of all keys of owner, or of everybody's if owner is
// empty, as they arrive. An error is the last thing yielded.
func (c *Client) Keys(ctx context.Context, owner string) iter.Seq2[Key, error] {
	return func(yield func(Key, error) bool) {
		path := "/admin/keys"
		if owner != "" {
			path += "?owner=" + url.QueryEscape(owner)
		}
		body, err := c.call(ctx, http.MethodGet, path, nil)
		if err != nil {
			yield(Key{}, err)
			return
		}
		defer func() { _ = body.Close() }()
		if err := yieldList(json.NewDecoder(body), yield); err != nil {
			yield(Key{}, c.decoded(err))
		}
	}
}

// yieldList reads {"object":"list","data":[...]} and returns nil after the end
// or when the caller has had enough.
func yieldList(dec *json.Decoder, yield func(Key, error) bool) error {
	for range 5 { // { "object" "list" "data" [
		if _, err := dec.Token(); err != nil {
			return err
		}
	}
	for dec.More() {
		var key Key
		if err := dec.Decode(&key); err != nil {
			return err
		}
		if !yield(key, nil) {
			return nil
		}
	}
	for range 2 { // ] }
		if _, err := dec.Token(); err != nil {
			return err
		}
	}
	return nil
}

// Read decodes what another path of the admin listener answers to a GET.
func (c *Client) Read(ctx context.Context, path string, into any) error {
	body, err := c.call(ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }()
	return c.decoded(json.NewDecoder(body).Decode(into))
}

func (c *Client) issue(ctx context.Context, path string, fields map[string]string) (Issued, error) {
	content, err := json.Marshal(fields)
	if err != nil {
		return Issued{}, err
	}
	body, err := c.call(ctx, http.MethodPost, path, content)
	if err != nil {
		return Issued{}, err
	}
	defer func() { _ = body.Close() }()
	var answer Issued
	return answer, c.decoded(json.NewDecoder(body).Decode(&answer))
}

// call returns the body of a 2xx, to be closed by the caller.
func (c *Client) call(ctx context.Context, method, path string, content []byte) (io.ReadCloser, error) {
	request, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(content))
	if err != nil {
		return nil, errors.New("the admin address cannot be used in a request")
	}
	request.Header.Set("Authorization", "Bearer "+c.token)
	request.Header.Set("User-Agent", clientAgent)
	if content != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, c.unreachable(err)
	}
	if response.StatusCode/100 == 2 {
		return response.Body, nil
	}
	defer func() { _ = response.Body.Close() }()
	return nil, c.refused(response)
}

func (c *Client) unreachable(err error) error {
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err // the URL is named below, once
	}
	return fmt.Errorf("no answer from a gateway's admin listener at %s: %w", c.base, err)
}

func (c *Client) refused(response *http.Response) error {
	var body struct{ Error apiError }
	err := json.NewDecoder(io.LimitReader(response.Body, 64<<10)).Decode(&body)
	switch {
	case err != nil || body.Error.Code == "":
		return fmt.Errorf("%s answered %d and is no key API: is it the admin listener, with an admin token configured?",
			c.base, response.StatusCode)
	case body.Error.Code == errToken.Code:
		return fmt.Errorf("the gateway at %s refuses the admin token: it is not the one that the gateway was started with", c.base)
	}
	return errors.New(body.Error.Message)
}

func (c *Client) decoded(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("the answer of the gateway at %s broke off or is no answer of a key API: %w", c.base, err)
}
