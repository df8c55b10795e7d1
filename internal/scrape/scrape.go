// Package scrape lets only those read the operator's metrics who may: whoever shows a bearer token that the API server knows
// (TokenReview) of somebody who may get the path (SubjectAccessReview).
//
// controller-runtime has a filter that does the same. It brings the inside of an API server along, with gRPC and html/template,
// whose use keeps the linker from leaving out any method of anything: the program is twice as large with it.
package scrape

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	tokencache "k8s.io/apiserver/pkg/authentication/token/cache"
	"k8s.io/apiserver/pkg/authentication/user"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

const (
	// tokenFresh is how long an answer about a token counts, allowedFresh and deniedFresh how long one about what somebody may do:
	// what an API server itself takes for its own questions to others.
	tokenFresh   = time.Minute
	allowedFresh = 5 * time.Minute
	deniedFresh  = 30 * time.Second
	// reviewTimeout bounds a question to the API server.
	reviewTimeout = 10 * time.Second
	// maxReviews is how many questions are asked at the same time, and maxAnswers how many answers are kept, whoever asks.
	maxReviews, maxAnswers = 4, 1024
)

// scrapers decides who may read the metrics.
type scrapers struct {
	tokens  authenticator.Token
	access  authorizationclient.SubjectAccessReviewInterface
	answers *cache.LRUExpireCache
	turns   chan struct{}
}

// Filter is a filter of the metrics' server. The operator needs to create tokenreviews and subjectaccessreviews.
func Filter(config *rest.Config, client *http.Client) (metricsserver.Filter, error) {
	authentication, err := authenticationclient.NewForConfigAndClient(config, client)
	if err != nil {
		return nil, fmt.Errorf("make a client for TokenReviews: %w", err)
	}
	authorization, err := authorizationclient.NewForConfigAndClient(config, client)
	if err != nil {
		return nil, fmt.Errorf("make a client for SubjectAccessReviews: %w", err)
	}
	s := &scrapers{
		access: authorization.SubjectAccessReviews(), answers: cache.NewLRUExpireCache(maxAnswers), turns: make(chan struct{}, maxReviews),
	}
	s.tokens = tokencache.New(&tokenReviews{authentication.TokenReviews(), s.turns}, false, tokenFresh, tokenFresh)
	return s.filter, nil
}

func (s *scrapers) filter(log logr.Logger, next http.Handler) (http.Handler, error) {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		ctx, cancel := context.WithTimeout(req.Context(), reviewTimeout)
		defer cancel()
		who, known, err := s.authenticate(ctx, req.Header.Get("Authorization"))
		switch {
		case err != nil:
			log.Error(err, "Cannot ask who reads the metrics")
			http.Error(w, "Authentication failed", http.StatusInternalServerError)
			return
		case !known:
			http.Error(w, "Unauthorized", http.StatusUnauthorized)
			return
		}
		allowed, err := s.authorize(ctx, who, req)
		switch {
		case err != nil:
			log.Error(err, "Cannot ask what somebody may read", "user", who.GetName())
			http.Error(w, "Authorization failed", http.StatusInternalServerError)
		case !allowed:
			http.Error(w, "Forbidden", http.StatusForbidden)
		default:
			next.ServeHTTP(w, req)
		}
	}), nil
}

// authenticate says whose token a request shows. The scheme's name is not case-sensitive (RFC 9110, section 11.1).
func (s *scrapers) authenticate(ctx context.Context, header string) (user.Info, bool, error) {
	scheme, token, _ := strings.Cut(header, " ")
	if token = strings.TrimSpace(token); !strings.EqualFold(scheme, "Bearer") || token == "" {
		return nil, false, nil
	}
	answer, known, err := s.tokens.AuthenticateToken(ctx, token)
	if err != nil || !known {
		return nil, false, err
	}
	return answer.User, true, nil
}

// authorize says whether somebody may do what a request asks for.
func (s *scrapers) authorize(ctx context.Context, who user.Info, req *http.Request) (bool, error) {
	spec := authorizationv1.SubjectAccessReviewSpec{
		User: who.GetName(), UID: who.GetUID(), Groups: who.GetGroups(), Extra: map[string]authorizationv1.ExtraValue{},
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: req.URL.Path, Verb: strings.ToLower(req.Method)},
	}
	for key, values := range who.GetExtra() {
		spec.Extra[key] = values
	}
	text, err := json.Marshal(spec)
	if err != nil {
		return false, fmt.Errorf("encode the question: %w", err)
	}
	if allowed, found := s.answers.Get(string(text)); found {
		return allowed == true, nil
	}
	done, err := turn(ctx, s.turns)
	if err != nil {
		return false, err
	}
	defer done()
	review, err := s.access.Create(ctx, &authorizationv1.SubjectAccessReview{Spec: spec}, metav1.CreateOptions{})
	if err != nil {
		return false, fmt.Errorf("ask for a SubjectAccessReview: %w", err)
	}
	allowed, fresh := review.Status.Allowed && !review.Status.Denied, deniedFresh
	if allowed {
		fresh = allowedFresh
	}
	s.answers.Add(string(text), allowed, fresh)
	return allowed, nil
}

// tokenReviews asks the API server for each token.
type tokenReviews struct {
	client authenticationclient.TokenReviewInterface
	turns  chan struct{}
}

func (r *tokenReviews) AuthenticateToken(ctx context.Context, token string) (*authenticator.Response, bool, error) {
	done, err := turn(ctx, r.turns)
	if err != nil {
		return nil, false, err
	}
	defer done()
	review, err := r.client.Create(ctx, &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}, metav1.CreateOptions{})
	if err != nil {
		return nil, false, fmt.Errorf("ask for a TokenReview: %w", err)
	}
	// Why a token is not known (status.error) is nothing to fail on: it is an answer, and kept like any other.
	if !review.Status.Authenticated {
		return nil, false, nil
	}
	who := &user.DefaultInfo{Name: review.Status.User.Username, UID: review.Status.User.UID, Groups: review.Status.User.Groups, Extra: map[string][]string{}}
	for key, values := range review.Status.User.Extra {
		who.Extra[key] = values
	}
	return &authenticator.Response{User: who}, true, nil
}

// turn waits for one of the turns; call what it returns when it is over.
func turn(ctx context.Context, turns chan struct{}) (func(), error) {
	select {
	case turns <- struct{}{}:
		return func() { <-turns }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
