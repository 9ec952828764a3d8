#!lua flags=allow-oom
-- Forget a worker host. Keys: requests.lua (hosts, host, host_of).
-- ARGV: worker
--@include requests.lua

call('HDEL', P .. 'host', ARGV[1])
call('HDEL', P .. 'host_of', ARGV[1])
if call('ZREM', P .. 'hosts', ARGV[1]) == 1 then tell_planners() end
