# frozen_string_literal: true

# Sends each operation in a request of its own, with the client for Elasticsearch. See ../README.md.

require 'elasticsearch'
require 'json'
require 'optparse'

CONCURRENCY = 4

# Returns the parameters of the client's method with the name of the operation's action.
def parameters(index, operation)
  action, id, routing, document = operation.values_at('action', 'id', 'routing', 'document')
  body = action == 'update' ? { doc: document } : document
  { index: index, id: id, routing: routing, body: body }.compact
end

# Returns the status, the body of the answer, and whether the client has raised an error.
def send_operation(client, index, operation)
  answer = client.public_send(operation['action'], parameters(index, operation))
  [answer['result'] == 'created' ? 201 : 200, answer, false]
rescue Elasticsearch::Transport::Transport::ServerError => e
  # The message is the status in brackets and the answer's body.
  status, body = e.message.match(/\A\[(\d+)\] (.*)\z/m).captures
  [status.to_i, JSON.parse(body), true]
end

def report(operation, status, answer)
  id = answer['_id'] || operation['id']
  error = answer['error'] && answer['error']['type']
  puts JSON.generate({ n: operation['n'], action: operation['action'], id: id, status: status,
                       version: answer['_version'], error: error })
end

options = {}
parser = OptionParser.new
parser.on('--compress') { options[:compression] = true }
_name, url, index, file = parser.parse(ARGV)
operations = File.foreach(file).map { |line| JSON.parse(line) }.each_slice(CONCURRENCY)

counts = { succeeded: 0, failed: 0 }
# Each client has connections of its own.
clients = Array.new(CONCURRENCY) { Elasticsearch::Client.new(url: url, **options) }
operations.each do |slice|
  threads = slice.zip(clients).map { |operation, client| Thread.new { send_operation(client, index, operation) } }
  slice.zip(threads.map(&:value)).each do |operation, (status, answer, is_error)|
    counts[is_error ? :failed : :succeeded] += 1
    report(operation, status, answer)
  end
end
puts JSON.generate(counts)
