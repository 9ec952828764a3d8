#!lua flags=allow-oom
-- Take or renew the lead of the planners. Keys: requests.lua (lead, leads).
-- ARGV: planner lease_ms      Returns {1 = it leads, who leads, fence, until (ms)}

local P, call = KEYS[1], redis.call
local planner = ARGV[1]
local leader = call('GET', P .. 'lead')
if not leader then call('INCR', P .. 'leads') end
if not leader or leader == planner then
  call('SET', P .. 'lead', planner, 'PX', ARGV[2])
  leader = planner
end
return { leader == planner and 1 or 0, leader, tonumber(call('GET', P .. 'leads')),
  call('PEXPIRETIME', P .. 'lead') }
