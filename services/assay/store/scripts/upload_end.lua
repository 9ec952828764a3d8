#!lua
-- Keep a file that a tenant has uploaded ahead of the requests that refer to it. Nothing is shared
-- between tenants: none learns from an answer, or from its time, what another has uploaded.
-- Keys (KEYS[1] is the prefix): uc:<tenant>:<sha256> STRING content, expires; ux:<tenant> ZSET sha256
-- -> expiry (ms); uz:<tenant> HASH sha256 -> bytes, '' -> their sum
-- ARGV: tenant sha256 trial (key of the content, '' = it is there) bytes kept_ms bytes_max files_max
-- Returns {'DONE', expiry_ms}, {'FULL', ms until room may be free} or {'GONE'}

local P, call = KEYS[1], redis.call
local DROPS_MAX = 1000
local tenant, hash, trial = ARGV[1], ARGV[2], ARGV[3]
local bytes, kept_ms, bytes_max = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local files_max = tonumber(ARGV[7])
local clock = call('TIME')
local now_ms = tonumber(clock[1]) * 1000 + math.floor(tonumber(clock[2]) / 1000)
local content, expiries, sizes = P .. 'uc:' .. tenant .. ':' .. hash, P .. 'ux:' .. tenant, P .. 'uz:' .. tenant

local function forget(old)
  call('HINCRBY', sizes, '', -tonumber(call('HGET', sizes, old) or 0))
  call('HDEL', sizes, old)
  call('ZREM', expiries, old)
end

for _, old in ipairs(call('ZRANGEBYSCORE', expiries, '-inf', now_ms, 'LIMIT', 0, DROPS_MAX)) do
  forget(old)
end
if call('EXISTS', content) == 0 then
  if trial == '' then return { 'GONE' } end
  if call('ZSCORE', expiries, hash) then forget(hash) end
  local total = tonumber(call('HGET', sizes, '') or 0)
  if total + bytes > bytes_max or call('ZCARD', expiries) >= files_max then
    call('DEL', trial)
    local first = call('ZRANGE', expiries, 0, 0, 'WITHSCORES')[2]
    return { 'FULL', first and math.max(1, tonumber(first) - now_ms) or kept_ms }
  end
  call('RENAMENX', trial, content)
  call('HSET', sizes, hash, bytes)
  call('HINCRBY', sizes, '', bytes)
elseif trial ~= '' then
  call('DEL', trial)
end
call('PEXPIRE', content, kept_ms)
call('ZADD', expiries, now_ms + kept_ms, hash)
call('PEXPIRE', expiries, kept_ms)
call('PEXPIRE', sizes, kept_ms)
return { 'DONE', now_ms + kept_ms }
