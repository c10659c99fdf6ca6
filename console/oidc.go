package console

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"crypto/rand"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"mete/config"
)

// oidcTrip is how long somebody may take at the provider.
const oidcTrip = 10 * time.Minute

// provider is the OIDC provider, which is looked up when it is first needed.
type provider struct {
	settings config.OIDC
	callback string
	client   *http.Client
	mu       sync.Mutex
	found    *oidc.Provider
}

func newProvider(s config.OIDC, callback string) *provider {
	if s.Issuer == "" {
		return nil
	}
	return &provider{settings: s, callback: callback, client: &http.Client{Timeout: 10 * time.Second}}
}

// trip is what a browser goes to the provider with, in a sealed cookie.
type trip struct {
	State    string    `json:"state"`
	Nonce    string    `json:"nonce"`
	Verifier string    `json:"verifier"`
	Next     string    `json:"next"`
	Until    time.Time `json:"until"`
}

func (v *visit) goToProvider() error {
	if v.provider == nil {
		return errNoPage
	}
	flow, _, err := v.provider.flow(v.r.Context())
	if err != nil {
		return err
	}
	t := trip{
		State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier(),
		Next: localPage(v.r.URL.Query().Get("next")), Until: time.Now().Add(oidcTrip),
	}
	content, err := json.Marshal(t)
	if err != nil {
		return fmt.Errorf("trip to the provider: %w", err)
	}
	v.cookies.set(v.w, oidcCookie, base64.RawURLEncoding.EncodeToString(v.Seals.Seal(oidcCookie, content)), oidcTrip)
	http.Redirect(v.w, v.r, flow.AuthCodeURL(t.State, oidc.Nonce(t.Nonce), oauth2.S256ChallengeOption(t.Verifier)), http.StatusSeeOther)
	return nil
}

func (v *visit) comeFromProvider() error {
	if v.provider == nil {
		return errNoPage
	}
	t, ok := v.trip()
	v.cookies.drop(v.w, oidcCookie)
	query := v.r.URL.Query()
	if !ok || t.State != query.Get("state") || time.Now().After(t.Until) {
		return errForged
	}
	if query.Get("error") != "" {
		return v.showSignIn(http.StatusForbidden, signInView{Next: t.Next, Error: "The provider did not let you in."})
	}
	id, err := v.provider.identify(v.r.Context(), query.Get("code"), t)
	if err != nil {
		v.Log.Warn().Err(err).Str("remote", v.address.String()).Msg("sign-in by OIDC")
		return v.showSignIn(http.StatusForbidden, signInView{Next: t.Next, Error: "The provider's answer was not accepted: " + reasonOf(err) + "."})
	}
	return v.signIn(id, t.Next)
}

func (v *visit) trip() (t trip, ok bool) {
	sealed, err := base64.RawURLEncoding.DecodeString(v.cookies.get(v.r, oidcCookie))
	if err != nil {
		return t, false
	}
	content, genuine := v.Seals.Open(oidcCookie, sealed)
	return t, genuine && json.Unmarshal(content, &t) == nil
}

// unfit is an identity that cannot be used; its text may be shown.
type unfit string

func (u unfit) Error() string { return string(u) }

func reasonOf(err error) string {
	var u unfit
	if errors.As(err, &u) {
		return string(u)
	}
	return "it could not be checked"
}

// identify exchanges the code, checks the ID token, and reads who it is.
func (p *provider) identify(ctx context.Context, code string, t trip) (identity, error) {
	ctx = oidc.ClientContext(ctx, p.client)
	flow, found, err := p.flow(ctx)
	if err != nil {
		return identity{}, err
	}
	tokens, err := flow.Exchange(ctx, code, oauth2.VerifierOption(t.Verifier))
	if err != nil {
		return identity{}, fmt.Errorf("exchange of the code: %w", withoutBody(err))
	}
	raw, _ := tokens.Extra("id_token").(string)
	idToken, err := found.VerifierContext(context.WithoutCancel(ctx), &oidc.Config{ClientID: p.settings.ClientID}).Verify(ctx, raw)
	if err != nil {
		return identity{}, fmt.Errorf("ID token: %w", err)
	}
	if idToken.Nonce != t.Nonce {
		return identity{}, errors.New("ID token: nonce is another's")
	}
	claims := map[string]any{}
	if err := idToken.Claims(&claims); err != nil {
		return identity{}, fmt.Errorf("ID token: %w", err)
	}
	if err := p.addUserInfo(ctx, found, tokens, claims); err != nil {
		return identity{}, err
	}
	return p.read(idToken.Issuer, idToken.Subject, claims)
}

// addUserInfo asks the provider for claims that the ID token lacks.
func (p *provider) addUserInfo(ctx context.Context, found *oidc.Provider, tokens *oauth2.Token, claims map[string]any) error {
	_, hasOwner := claims[p.settings.OwnerClaim]
	_, hasGroups := claims[p.settings.GroupsClaim]
	if hasOwner && hasGroups || found.UserInfoEndpoint() == "" {
		return nil
	}
	info, err := found.UserInfo(ctx, oauth2.StaticTokenSource(tokens))
	if err != nil {
		return fmt.Errorf("user info: %w", err)
	}
	if info.Subject != claims["sub"] {
		return errors.New("user info: speaks of somebody else")
	}
	more := map[string]any{}
	if err := info.Claims(&more); err != nil {
		return fmt.Errorf("user info: %w", err)
	}
	for name, value := range more {
		if _, known := claims[name]; !known {
			claims[name] = value
		}
	}
	return nil
}

func (p *provider) read(issuer, subject string, claims map[string]any) (identity, error) {
	owner, _ := claims[p.settings.OwnerClaim].(string)
	if owner == "" {
		return identity{}, unfit("it has no " + p.settings.OwnerClaim)
	}
	if p.settings.OwnerClaim == "email" && !isTrue(claims["email_verified"]) {
		return identity{}, unfit("the email address is not verified")
	}
	id := identity{owner: strings.ToLower(owner), way: "oidc", subject: issuer + " " + subject}
	if !ownerShape.MatchString(id.owner) {
		return identity{}, unfit("the " + p.settings.OwnerClaim + " is not one that can own keys")
	}
	groups, _ := claims[p.settings.GroupsClaim].([]any)
	for _, group := range groups {
		if name, ok := group.(string); ok {
			id.groups = append(id.groups, name)
		}
	}
	return id, nil
}

// isTrue also takes the text that some providers send.
func isTrue(claim any) bool { return claim == true || claim == "true" }

// flow is the code flow. The provider's configuration is read once it can be.
func (p *provider) flow(ctx context.Context) (*oauth2.Config, *oidc.Provider, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.found == nil {
		found, err := oidc.NewProvider(oidc.ClientContext(context.WithoutCancel(ctx), p.client), p.settings.Issuer)
		if err != nil {
			return nil, nil, fmt.Errorf("OIDC provider: %w", err)
		}
		p.found = found
	}
	return &oauth2.Config{
		ClientID: p.settings.ClientID, ClientSecret: p.settings.ClientSecret.Reveal(), Endpoint: p.found.Endpoint(),
		RedirectURL: p.callback, Scopes: append([]string{oidc.ScopeOpenID}, p.settings.Scopes...),
	}, p.found, nil
}

// withoutBody keeps what a token endpoint sent out of logs.
func withoutBody(err error) error {
	var retrieve *oauth2.RetrieveError
	if errors.As(err, &retrieve) {
		return fmt.Errorf("status %d, error %q", retrieve.Response.StatusCode, retrieve.ErrorCode)
	}
	return err
}
