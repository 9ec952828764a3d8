#!lua flags=allow-oom
-- Renew leases. Keys: requests.lua.
-- ARGV: stage lease_ms, then job fence each      Returns indexes (from 0) of the leases lost
--@include requests.lua

local expiry = NOW_MS + tonumber(ARGV[2])
local kept, lost = {}, {}
for i = 3, #ARGV, 2 do
  local j = read_job(ARGV[i])
  if j and j.state == 'L' and j.fence == tonumber(ARGV[i + 1]) and j.stage == ARGV[1] then
    kept[#kept + 1] = expiry
    kept[#kept + 1] = ARGV[i]
  else
    lost[#lost + 1] = (i - 3) / 2
  end
end
in_slices('ZADD', P .. 'l:' .. ARGV[1], kept)
return lost
