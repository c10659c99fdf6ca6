package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"mete/devicecode"
)

// gatewayClient speaks to the API listener of a gateway as people's commands do.
type gatewayClient struct {
	base string // scheme and host, and a path if the API lies below one; no /v1
	http *http.Client
}

// newGatewayClient takes a gateway's URL with or without /v1, or the one that
// was logged in to last.
func newGatewayClient(given string, store *credentials) (*gatewayClient, error) {
	base, err := store.gateway(given)
	if err != nil {
		return nil, err
	}
	client := &http.Client{
		Timeout:       30 * time.Second,
		Transport:     &http.Transport{Proxy: http.ProxyFromEnvironment, TLSHandshakeTimeout: 10 * time.Second},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // a key follows no redirect
	}
	return &gatewayClient{base: base, http: client}, nil
}

func (g *gatewayClient) close() { g.http.CloseIdleConnections() }

// normaliseBase refuses to send keys over a network in the clear.
func normaliseBase(given string) (string, error) {
	if !strings.Contains(given, "://") {
		given = "https://" + given
	}
	u, err := url.Parse(given)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Scheme != "https" && u.Scheme != "http" {
		return "", errors.New("that is not a gateway's URL: write it like https://api.example.com")
	}
	if u.Scheme == "http" && !isLoopback(u.Hostname()) {
		return "", errors.New("http would send the key over the network in the clear: write https")
	}
	path := strings.TrimSuffix(strings.TrimSuffix(u.Path, "/"), "/v1")
	return u.Scheme + "://" + u.Host + strings.TrimSuffix(path, "/"), nil
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

type deviceCode struct {
	DeviceCode      string `json:"device_code"`
	UserCode        string `json:"user_code"`
	VerificationURI string `json:"verification_uri"`
	Complete        string `json:"verification_uri_complete"`
	ExpiresIn       int64  `json:"expires_in"`
	Interval        int64  `json:"interval"`
}

// link fills in the code for those who open it; they still have to approve.
func (c deviceCode) link() string {
	if c.Complete != "" {
		return c.Complete
	}
	return c.VerificationURI
}

type deviceToken struct {
	AccessToken string `json:"access_token"`
	ExpiresIn   int64  `json:"expires_in"`
	Scope       string `json:"scope"`
}

var (
	errStillPending = errors.New("nobody has decided yet")
	errSlowDown     = errors.New("polled too soon")
	errCodeExpired  = errors.New("the code has expired: run mete login again")
)

// hiccupError is a failure that may be over in a moment.
type hiccupError struct{ err error }

func (e *hiccupError) Error() string { return e.err.Error() }

func (g *gatewayClient) startLogin(ctx context.Context, client, plan string) (code deviceCode, err error) {
	form := url.Values{"client_id": {client}}
	if plan != "" {
		form.Set("scope", plan)
	}
	status, body, err := g.post(ctx, "/v1/auth/device/code", form)
	if err != nil {
		return code, err
	}
	if status != http.StatusOK {
		return code, refusal(status, body)
	}
	if err := json.Unmarshal(body, &code); err != nil || code.DeviceCode == "" || code.UserCode == "" || code.ExpiresIn <= 0 {
		return code, fmt.Errorf("%s does not answer like a gateway", g.base)
	}
	return code, nil
}

func (g *gatewayClient) poll(ctx context.Context, deviceCode, client string) (token deviceToken, err error) {
	form := url.Values{"client_id": {client}, "grant_type": {devicecode.GrantType}, "device_code": {deviceCode}}
	status, body, err := g.post(ctx, "/v1/auth/device/token", form)
	if err != nil {
		return token, &hiccupError{err}
	}
	if status == http.StatusOK {
		if err := json.Unmarshal(body, &token); err != nil || token.AccessToken == "" {
			return token, fmt.Errorf("%s gave no key", g.base)
		}
		return token, nil
	}
	switch code := oauthError(body); {
	case status >= 500 || status == http.StatusTooManyRequests:
		return token, &hiccupError{fmt.Errorf("the gateway answers with status %d", status)}
	case code == "authorization_pending":
		return token, errStillPending
	case code == "slow_down":
		return token, errSlowDown
	case code == "access_denied":
		return token, errors.New("the request was denied")
	case code == "expired_token":
		return token, errCodeExpired
	case code == "invalid_grant":
		return token, errors.New("the gateway does not know the code any more: run mete login again")
	}
	return token, refusal(status, body)
}

// refusal words an answer that is not what was asked for.
func refusal(status int, body []byte) error {
	var answer struct {
		Error       json.RawMessage `json:"error"`
		Description string          `json:"error_description"`
	}
	var own struct{ Message string }
	_ = json.Unmarshal(body, &answer)
	_ = json.Unmarshal(answer.Error, &own)
	switch {
	case answer.Description != "":
		return fmt.Errorf("the gateway refused: %s", printable(answer.Description))
	case own.Message != "":
		return fmt.Errorf("the gateway refused: %s", printable(own.Message))
	}
	return fmt.Errorf("the gateway answered with status %d", status)
}

func oauthError(body []byte) string {
	var answer struct{ Error string }
	_ = json.Unmarshal(body, &answer)
	return answer.Error
}

// printable keeps control characters of a server away from the terminal.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || 0x80 <= r && r < 0xa0 {
			return -1
		}
		return r
	}, text[:min(len(text), 300)])
}

func (g *gatewayClient) post(ctx context.Context, path string, form url.Values) (int, []byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, g.base+path, strings.NewReader(form.Encode()))
	if err != nil {
		return 0, nil, err
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return g.send(request)
}

// ownKey asks about the key, or revokes it.
func (g *gatewayClient) ownKey(ctx context.Context, method, key string) (int, []byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, g.base+"/v1/auth/key", nil)
	if err != nil {
		return 0, nil, err
	}
	request.Header.Set("Authorization", "Bearer "+key)
	return g.send(request)
}

func (g *gatewayClient) send(request *http.Request) (int, []byte, error) {
	request.Header.Set("Accept", "application/json")
	answer, err := g.http.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
	return answer.StatusCode, body, err
}
