#!lua flags=allow-oom
-- Keep the record of a worker host, or renew it. Keys: requests.lua (hosts, host, host_of).
-- ARGV: worker packed lease_ms hosts_max owner per_owner_max ('' = of no owner)
-- Returns 1 = new, 0 = renewed, -1 = there is no room, -2 = there is none for this owner
--@include requests.lua

local GONE_MAX = 64 -- removed per call
local worker, owner = ARGV[1], ARGV[5]
for _, gone in ipairs(call('ZRANGEBYSCORE', P .. 'hosts', '-inf', NOW_MS, 'LIMIT', 0, GONE_MAX)) do
  call('ZREM', P .. 'hosts', gone)
  call('HDEL', P .. 'host', gone)
  call('HDEL', P .. 'host_of', gone)
end
local known = call('ZSCORE', P .. 'hosts', worker)
if not known then
  if call('ZCARD', P .. 'hosts') >= tonumber(ARGV[4]) then return -1 end
  if owner ~= '' then
    local count = 0
    for _, other in ipairs(call('HVALS', P .. 'host_of')) do
      if other == owner then count = count + 1 end
    end
    if count >= tonumber(ARGV[6]) then return -2 end
    call('HSET', P .. 'host_of', worker, owner)
  end
end
call('ZADD', P .. 'hosts', NOW_MS + tonumber(ARGV[3]), worker)
call('HSET', P .. 'host', worker, ARGV[2])
if known then return 0 end
tell_planners()
return 1
