// Package awsapi is how the operator calls AWS: the calls that it makes, as interfaces; the clients of an account and region, with
// deadlines, figures and a check that an answer is EC2's; what an error means and how it is put into words; the tags and client
// tokens by which EC2 knows whose a resource is.
//
// Unknown is not gone: no answer, and an answer that is not EC2's, is an error of class Unreachable, and never a state.
package awsapi
