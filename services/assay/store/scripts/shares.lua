-- Shares of tenants in a stage: `Shares` and `Costs` of core/ordering.py, number for number.
-- Included after requests.lua.

local ALONE = -1 -- in place of the virtual time of a tenant that waits alone since the stage had none

local function advance_us(cost_us, weight)
  return math.ceil(cost_us / weight)
end

local function join(stage, tenant)
  local waiting = P .. 's:' .. stage
  local first = call('ZRANGE', waiting, 0, 0, 'WITHSCORES')
  if first[1] == tenant then return end
  if not first[1] then
    call('ZADD', waiting, ALONE, tenant)
    return
  end
  if tonumber(first[2]) == ALONE then
    call('ZADD', waiting, 0, first[1])
  elseif call('ZSCORE', waiting, tenant) then
    return
  end
  call('HSETNX', P .. 'sv:' .. stage, 'since', call('GET', P .. 'fence') or '0')
  local now_us = tonumber(call('HGET', P .. 'sv:' .. stage, 'now') or 0)
  local debt = tonumber(call('ZSCORE', P .. 'sd:' .. stage, tenant) or 0)
  call('ZADD', waiting, math.max(now_us, debt), tenant)
  call('ZREM', P .. 'sd:' .. stage, tenant)
end

-- Returns whether the tenant still waits.
local function leave_if_empty(stage, tenant)
  if call('EXISTS', P .. 'q:' .. stage .. ':' .. tenant) == 1 then return true end
  local waiting = P .. 's:' .. stage
  local virtual_us = call('ZSCORE', waiting, tenant)
  if not virtual_us then return false end
  call('ZREM', waiting, tenant)
  if call('EXISTS', waiting) == 0 then
    call('DEL', P .. 'sv:' .. stage, P .. 'sd:' .. stage)
  else
    call('ZADD', P .. 'sd:' .. stage, virtual_us, tenant)
  end
  return false
end

-- Difference between the request's charge and its cost; 0 if that charge no longer counts.
local function correction_us(j, cost_us)
  if j.charged == 0 then return 0 end
  local since = call('HGET', P .. 'sv:' .. j.stage, 'since')
  if not since or j.fence <= tonumber(since) then return 0 end
  return advance_us(cost_us, j.weight) - j.charged
end

local function correct(stage, tenant, more_us)
  if more_us == 0 then return end
  if call('ZSCORE', P .. 's:' .. stage, tenant) then
    local shares, waiting = P .. 'sv:' .. stage, P .. 's:' .. stage
    call('ZINCRBY', waiting, more_us, tenant)
    local now_us = tonumber(call('HGET', shares, 'now') or 0)
    local last_us = tonumber(call('ZRANGE', waiting, -1, -1, 'WITHSCORES')[2])
    if last_us < now_us then call('HSET', shares, 'now', last_us) end
    return
  end
  local debts = P .. 'sd:' .. stage
  local now_us = tonumber(call('HGET', P .. 'sv:' .. stage, 'now') or 0)
  local virtual_us = math.max(tonumber(call('ZSCORE', debts, tenant) or 0), now_us) + more_us
  if virtual_us > now_us then
    call('ZADD', debts, virtual_us, tenant)
  else
    call('ZREM', debts, tenant)
  end
end

local function learn(stage, tenant, total_us, count)
  local key = P .. 'cost:' .. stage
  local known = call('HMGET', key, tenant, '')
  local mean_us, changed = total_us / count, false
  for i = 1, 2 do
    local old = tonumber(known[i] or 0)
    local new = math.floor(mean_us)
    if old > 0 then new = math.floor(old + (mean_us - old) * count / (count + LEARNT_FROM)) end
    changed = changed or new ~= old
    known[i] = new
  end
  if changed and call('HSET', key, tenant, known[1], '', known[2]) > 0 then
    call('PEXPIRE', key, TASK_KEPT_MS)
  end
end
