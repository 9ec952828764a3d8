#!lua
-- Store a hint until a batch of its task opens or it expires. Keys: requests.lua (hints, hinted).
-- ARGV: tenant task size kept_ms hints_max hints_per_tenant_max
--@include requests.lua

local hints, hinted = P .. 'hints', P .. 'hinted'
local name = ARGV[1] .. ':' .. ARGV[2]

local function drop(names)
  if #names > 0 then
    call('HDEL', hints, unpack(names))
    call('ZREM', hinted, unpack(names))
  end
end

drop(call('ZRANGEBYSCORE', hinted, '-inf', NOW_MS, 'LIMIT', 0, SLICE))
call('HSET', hints, name, cmsgpack.pack(tonumber(ARGV[3]), NOW_US))
call('ZADD', hinted, NOW_US / 1000 + tonumber(ARGV[4]), name)
local own = {} -- oldest first
for _, one in ipairs(call('ZRANGE', hinted, 0, -1)) do
  if tenant_of(one) == ARGV[1] then own[#own + 1] = one end
end
drop({ unpack(own, 1, #own - tonumber(ARGV[6])) })
drop(call('ZRANGE', hinted, 0, -tonumber(ARGV[5]) - 1))
local last = math.ceil(tonumber(call('ZRANGE', hinted, -1, -1, 'WITHSCORES')[2]))
call('PEXPIREAT', hints, last)
call('PEXPIREAT', hinted, last)
tell_planners()
