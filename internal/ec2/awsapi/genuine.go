package awsapi

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"

	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// headBytes is how far into an answer its root element is looked for: behind the XML declaration, in the first line.
const headBytes = 512

// genuine refuses a success that is not EC2's answer to the call. The SDK takes an empty body, and any well-formed page of
// whoever stands between us and AWS, for an answer that lists nothing; what was not said must never be read as absence.
// The error is of class Unreachable.
func genuine(stack *middleware.Stack) error {
	return stack.Deserialize.Insert(middleware.DeserializeMiddlewareFunc("NairobiGenuine",
		func(ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler) (middleware.DeserializeOutput, middleware.Metadata, error) {
			out, meta, err := next.HandleDeserialize(ctx, in)
			response := succeeded(out, err)
			if response == nil {
				return out, meta, err
			}
			body := bufio.NewReaderSize(response.Body, headBytes)
			head, _ := body.Peek(headBytes) // a body that is shorter, or breaks off, is judged by what there is of it
			if root := "<" + awsmiddleware.GetOperationName(ctx) + "Response"; !bytes.Contains(head, []byte(root)) {
				return out, meta, &smithy.DeserializationError{Snapshot: bytes.Clone(head),
					Err: fmt.Errorf("the answer is not EC2's: it does not begin with %s>", root)}
			}
			response.Body = answer{body, response.Body}
			return out, meta, nil
		}), "OperationDeserializer", middleware.After)
}

// succeeded is the response of a call that was answered with a success, nil of any other.
func succeeded(out middleware.DeserializeOutput, err error) *smithyhttp.Response {
	response, ok := out.RawResponse.(*smithyhttp.Response)
	if err != nil || !ok || response.StatusCode < 200 || response.StatusCode > 299 {
		return nil
	}
	return response
}

// answer is a body of which the head was read ahead.
type answer struct {
	io.Reader
	io.Closer
}
