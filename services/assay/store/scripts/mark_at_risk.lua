#!lua flags=allow-oom
-- Mark whether the deadline of a batch that is not complete may be missed. Keys: requests.lua (b).
-- ARGV: tenant batch '0'|'1'      Returns 0 when there is no such batch
--@include requests.lua

local uid = ARGV[1] .. ':' .. ARGV[2]
local key = P .. 'b:' .. uid
local state, risk = unpack(call('HMGET', key, 'state', 'risk'))
if not state then return 0 end
if (state == 'OPEN' or state == 'SEALED') and risk ~= ARGV[3] then
  call('HSET', key, 'risk', ARGV[3])
  tell(uid)
end
return 1
